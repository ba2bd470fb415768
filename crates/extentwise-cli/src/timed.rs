//! A cache with the times of its calls, and its failures in words.

use std::time::Instant;

use anyhow::{Error, Result};
use extentwise_engine::Refusal;
use extentwise_files::{Cache, Times};

use crate::watch::Standing;

/// A cache of files, as one thread uses it.
pub(crate) struct TimedCache {
    cache: Box<dyn Cache>,
    /// Times of the calls that wrote back.
    writeback: Times,
}

impl TimedCache {
    pub(crate) fn new(cache: Box<dyn Cache>) -> Self {
        Self {
            cache,
            writeback: Times::new(),
        }
    }

    /// How the cache stands.
    pub(crate) fn standing(&self) -> Standing {
        Standing {
            gauge: self.cache.gauge(),
            p99_nanos: self.writeback.percentile(99),
        }
    }

    /// The cache, and the times of the calls that wrote back.
    pub(crate) fn into_parts(self) -> (Box<dyn Cache>, Times) {
        (self.cache, self.writeback)
    }

    /// Calls the cache for a file, takes the time where it wrote back, and says
    /// what the operating system answered if it fails.
    pub(crate) fn call<T>(
        &mut self,
        file: usize,
        call: impl FnOnce(&mut dyn Cache) -> Result<T, Refusal>,
    ) -> Result<T> {
        let passes = self.cache.passes();
        let started = Instant::now();
        let result = call(&mut *self.cache);
        if self.cache.passes() != passes {
            let nanos = started.elapsed().as_nanos();
            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
            self.writeback.record(nanos);
        }
        match (result, self.cache.take_failure(file)) {
            (Ok(value), None) => Ok(value),
            (Err(Refusal::Failed(_)) | Ok(_), Some(failure)) => Err(failure),
            (Err(refusal), None) => Err(Error::from(refusal)),
            (Err(refusal), Some(failure)) => Err(failure.context(refusal)),
        }
    }
}
