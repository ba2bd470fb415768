//! A cache that threads share.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use anyhow::{Error, Result};
use extentwise::{File, PageCache, Patience, Setup};
use extentwise_engine::{Config, Counts, ErrorClass, FileId, FileOffset, Identity, Refusal};

use crate::cache::{Cache, Fill, Gauge, See};
use crate::files::Files;
use crate::times::Times;

/// A cache of files that threads share; each of them has a [`user`](Self::user)
/// of its own. Clones are the same cache.
#[derive(Clone)]
pub struct SharedCache(PageCache<Identity, Files>);

impl SharedCache {
    /// A cache over `files`, which are empty.
    pub fn new(config: Config, files: Files) -> Result<Self> {
        let mapping = files.mapping();
        Ok(Self(PageCache::new(Setup::new(config), mapping, files)?))
    }

    /// The cache, as one thread uses it. Files are opened when they are used
    /// first, and closed with the user: what is dirty is written back then.
    #[must_use]
    pub fn user(&self) -> Box<dyn Cache> {
        Box::new(User {
            cache: self.0.clone(),
            files: HashMap::new(),
            bytes: Vec::new(),
        })
    }

    /// What the engine did so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.counts()
    }

    /// How the cache stands now.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        gauge(&self.0)
    }

    /// How long the writes took that devices were asked for.
    #[must_use]
    pub fn write_times(&self) -> Times {
        self.0.host().write_times()
    }
}

/// Bytes that a read is shown at a time.
const READ_LEN: usize = 256 << 10;

/// A cache as one thread uses it.
struct User {
    cache: PageCache<Identity, Files>,
    files: HashMap<usize, File<Identity, Files>>,
    /// What a read is shown through.
    bytes: Vec<u8>,
}

impl User {
    fn file(&mut self, nth: usize) -> Result<&File<Identity, Files>, Refusal> {
        match self.files.entry(nth) {
            Entry::Occupied(file) => Ok(file.into_mut()),
            Entry::Vacant(place) => {
                let file = self.cache.open(FileId(nth as u64), FileOffset::ZERO)?;
                Ok(place.insert(file))
            }
        }
    }
}

impl Cache for User {
    fn write(&mut self, nth: usize, at: u64, len: u64, fill: &mut Fill<'_>) -> Result<(), Refusal> {
        let open = self.file(nth)?;
        let mut done = 0;
        while done < len {
            let start = at.checked_add(done);
            let start = start.ok_or(Refusal::Failed(ErrorClass::TooLarge))?;
            let rest = usize::try_from(len - done).unwrap_or(usize::MAX);
            let put = |into: &mut [u8]| {
                fill(into, done);
                into.len()
            };
            done += open.write_with(start, rest, Patience::Wait, put)? as u64;
        }
        Ok(())
    }

    fn read(&mut self, nth: usize, at: u64, len: u64, see: &mut See<'_>) -> Result<u64, Refusal> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(READ_LEN, 0);
        let file = self.file(nth)?;
        let mut done = 0;
        while done < len {
            let want = usize::try_from(len - done).map_or(READ_LEN, |rest| rest.min(READ_LEN));
            let read = file.read_at(at.saturating_add(done), &mut bytes[..want])?;
            see(&bytes[..read], done);
            done += read as u64;
            if read < want {
                break;
            }
        }
        self.bytes = bytes;
        Ok(done)
    }

    fn punch(&mut self, nth: usize, range: Range<u64>) -> Result<(), Refusal> {
        self.file(nth)?.punch(range.start, range.end)
    }

    fn resize(&mut self, nth: usize, size: u64) -> Result<(), Refusal> {
        self.file(nth)?.resize(size)
    }

    fn sync(&mut self, nth: usize) -> Result<(), Refusal> {
        self.file(nth)?.sync()
    }

    fn counts(&self) -> Counts {
        self.cache.counts()
    }

    fn passes(&self) -> u64 {
        0
    }

    fn gauge(&self) -> Gauge {
        gauge(&self.cache)
    }

    fn take_failure(&self, nth: usize) -> Option<Error> {
        self.cache.host().take_failure_of(nth)
    }
}

fn gauge(cache: &PageCache<Identity, Files>) -> Gauge {
    let times = cache.host().write_times();
    Gauge::new(cache.blocks(), times.count(), cache.host().written_bytes())
}
