//! Caches of one thread: it carries the engine's effects out itself, one after
//! the other, or many at a time.

use std::ops::Range;

use anyhow::{Error, Result};
use extentwise_engine::{
    Calls, Config, Counts, Driver, Engine, FileOffset, FileRange, HandleId, Identity, Memory,
    NoMemory, Refusal, Transfers,
};
#[cfg(feature = "uring")]
use extentwise_host::{RingMemory, UringDriver};
use extentwise_memory::{Folio, FolioPool};

use crate::cache::{Cache, Fill, Gauge, See};
use crate::files::{DeviceKind, Files};

/// Transfers under way at a time.
#[cfg(feature = "uring")]
const DEPTH: u32 = 64;

/// A cache over `files`, which are empty, for one thread.
pub fn alone(config: Config, files: Files) -> Result<Box<dyn Cache>> {
    let ids = files.ids();
    let mapping = files.mapping();
    match files.kind() {
        DeviceKind::Buffered | DeviceKind::Direct => {
            let mut engine = Engine::new(config, PageMemory::new(&config), mapping)?;
            let handles: Result<_, Refusal> =
                ids.map(|id| engine.open(id, FileOffset::ZERO)).collect();
            Ok(Box::new(Alone {
                handles: handles?,
                driver: Driver::new(engine, files),
            }))
        }
        #[cfg(feature = "uring")]
        DeviceKind::Uring => {
            let mut engine = Engine::new(config, RingMemory::new(&config), mapping)?;
            let handles: Result<_, Refusal> =
                ids.map(|id| engine.open(id, FileOffset::ZERO)).collect();
            Ok(Box::new(Alone {
                handles: handles?,
                driver: UringDriver::new(engine, files, DEPTH)?,
            }))
        }
        #[cfg(not(feature = "uring"))]
        DeviceKind::Uring => Err(DeviceKind::no_uring()),
    }
}

/// A driver, with a handle for each file.
struct Alone<D> {
    handles: Vec<HandleId>,
    driver: D,
}

impl<D> Alone<D> {
    fn handle(&self, nth: usize) -> Result<HandleId, Refusal> {
        self.handles.get(nth).copied().ok_or(Refusal::NotOpen)
    }
}

/// A driver over files, and what it counts.
trait Driven: Calls {
    fn transfers(&self) -> &Transfers;
    fn files(&self) -> &Files;
}

impl Driven for Driver<PageMemory, Identity, Files> {
    fn transfers(&self) -> &Transfers {
        self.transfers()
    }

    fn files(&self) -> &Files {
        self.host()
    }
}

#[cfg(feature = "uring")]
impl Driven for UringDriver<Identity, Files> {
    fn transfers(&self) -> &Transfers {
        self.transfers()
    }

    fn files(&self) -> &Files {
        self.host()
    }
}

impl<D: Driven> Cache for Alone<D> {
    fn write(&mut self, nth: usize, at: u64, len: u64, fill: &mut Fill<'_>) -> Result<(), Refusal> {
        let handle = self.handle(nth)?;
        let written = self
            .driver
            .write_with(handle, FileOffset::new(at), len, fill);
        written.map_err(|(_, refusal)| refusal)
    }

    fn read(&mut self, nth: usize, at: u64, len: u64, see: &mut See<'_>) -> Result<u64, Refusal> {
        let handle = self.handle(nth)?;
        self.driver.read_with(handle, FileOffset::new(at), len, see)
    }

    fn punch(&mut self, nth: usize, range: Range<u64>) -> Result<(), Refusal> {
        let handle = self.handle(nth)?;
        let (start, end) = (FileOffset::new(range.start), FileOffset::new(range.end));
        self.driver.punch(handle, FileRange::clamped(start, end))
    }

    fn resize(&mut self, nth: usize, size: u64) -> Result<(), Refusal> {
        let handle = self.handle(nth)?;
        self.driver.resize(handle, FileOffset::new(size))
    }

    fn sync(&mut self, nth: usize) -> Result<(), Refusal> {
        let handle = self.handle(nth)?;
        self.driver.sync(handle)
    }

    fn counts(&self) -> Counts {
        *self.driver.engine().counts()
    }

    fn passes(&self) -> u64 {
        self.driver.engine().counts().passes
    }

    fn gauge(&self) -> Gauge {
        let transfers = self.driver.transfers();
        let blocks = self.driver.engine().blocks();
        Gauge::new(blocks, transfers.writes, transfers.write_bytes)
    }

    /// Of any file: writeback of others is carried out along.
    fn take_failure(&self, _: usize) -> Option<Error> {
        self.driver.files().take_failure()
    }
}

/// Pages of memory for folios; those given back are used again.
#[derive(Debug)]
struct PageMemory(FolioPool);

impl PageMemory {
    /// A part of the cache's size is kept free.
    fn new(config: &Config) -> Self {
        Self(FolioPool::of_cache(config.cache_bytes_max.get()))
    }
}

impl Memory for PageMemory {
    type Bytes = Folio;

    fn allocate(&mut self, len: usize) -> Result<Folio, NoMemory> {
        self.0.get(len).map_err(|_| NoMemory)
    }

    fn zero(&mut self, bytes: &mut Folio, range: Range<usize>) {
        if let Some(part) = bytes.get_mut(range) {
            part.fill(0);
        }
    }

    fn release(&mut self, bytes: Folio) {
        self.0.give_back(bytes);
    }
}
