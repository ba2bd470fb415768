//! The cache under a replay, as one thread uses it: with times, and with
//! failures in words.

use std::ops::Range;
use std::time::Instant;

use anyhow::{Error, Result, bail};
use extentwise_engine::Refusal;
use extentwise_files::{Cache, Times, pattern};

use crate::watch::Standing;

/// A cache of the files of a replay.
pub(crate) struct Engine {
    cache: Box<dyn Cache>,
    /// Times of the calls that wrote back.
    writeback: Times,
}

impl Engine {
    pub(crate) fn new(cache: Box<dyn Cache>) -> Self {
        Self {
            cache,
            writeback: Times::new(),
        }
    }

    /// Writes `range` of a file into the cache, with the pattern of the write of
    /// this number; the file grows if the range ends past its size.
    pub(crate) fn write(&mut self, file: usize, range: Range<u64>, write: u64) -> Result<()> {
        let (start, len) = (range.start, range.end - range.start);
        self.timed(file, |cache| {
            cache.write(file, start, len, &mut |bytes, into| {
                pattern::fill(bytes, start + into, write);
            })
        })
    }

    /// Reads `range`, which must lie in the file, and shows it to `see`, piece
    /// by piece with its offset.
    pub(crate) fn read(
        &mut self,
        file: usize,
        range: Range<u64>,
        see: impl Fn(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let mut seen = Ok(());
        let (start, len) = (range.start, range.end - range.start);
        let read = self.timed(file, |cache| {
            cache.read(file, start, len, &mut |bytes, into| {
                if seen.is_ok() {
                    seen = see(bytes, start + into);
                }
            })
        })?;
        seen?;
        if read != len {
            bail!("read [{start}, {}): only {read} bytes came", range.end);
        }
        Ok(())
    }

    /// Makes `range`, which must lie in the file, read as zero.
    pub(crate) fn trim(&mut self, file: usize, range: Range<u64>) -> Result<()> {
        self.timed(file, |cache| cache.punch(file, range))
    }

    /// Writes a file back and makes it durable, its size too.
    pub(crate) fn sync(&mut self, file: usize) -> Result<()> {
        self.timed(file, |cache| cache.sync(file))
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
    fn timed<T>(
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
