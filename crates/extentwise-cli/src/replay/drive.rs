//! What carries a replay's effects out: one after the other, or many at a time.

use std::ops::Range;

use anyhow::Result;
use extentwise_engine::{
    Config, Counts, Driver, Engine, FileId, FileOffset, FileRange, HandleId, Identity, Memory,
    NoMemory, Refusal, Transfers,
};
#[cfg(feature = "uring")]
use extentwise_host::{RingMemory, UringDriver};
use extentwise_memory::Folio;

use super::files::Files;
use super::settings::DeviceKind;

/// Transfers under way at a time.
#[cfg(feature = "uring")]
const DEPTH: u32 = 64;

/// An engine over the files of a replay, and its driver.
pub(crate) enum Drive {
    Waiting(Box<Driver<PageMemory, Identity, Files>>),
    #[cfg(feature = "uring")]
    Ring(Box<UringDriver<Identity, Files>>),
}

/// Does the same with either driver.
macro_rules! with {
    ($drive:expr, $driver:ident => $call:expr) => {
        match $drive {
            Drive::Waiting($driver) => $call,
            #[cfg(feature = "uring")]
            Drive::Ring($driver) => $call,
        }
    };
}

impl Drive {
    pub(crate) fn new(
        config: Config,
        mapping: Identity,
        files: Files,
        device: DeviceKind,
    ) -> Result<Self> {
        match device {
            DeviceKind::Buffered | DeviceKind::Direct => {
                let engine = Engine::new(config, PageMemory::default(), mapping)?;
                Ok(Self::Waiting(Box::new(Driver::new(engine, files))))
            }
            #[cfg(feature = "uring")]
            DeviceKind::Uring => {
                let engine = Engine::new(config, RingMemory::default(), mapping)?;
                let driver = UringDriver::new(engine, files, DEPTH)?;
                Ok(Self::Ring(Box::new(driver)))
            }
            #[cfg(not(feature = "uring"))]
            DeviceKind::Uring => {
                anyhow::bail!("--device uring: this command was built without the feature `uring`")
            }
        }
    }

    /// Opens an empty file.
    pub(crate) fn open(&mut self, file: FileId) -> Result<HandleId, Refusal> {
        match self {
            Self::Waiting(driver) => driver.engine_mut().open(file, FileOffset::ZERO),
            #[cfg(feature = "uring")]
            Self::Ring(driver) => driver.open(file, FileOffset::ZERO),
        }
    }

    pub(crate) fn write_with(
        &mut self,
        handle: HandleId,
        at: FileOffset,
        len: u64,
        fill: impl FnMut(&mut [u8], u64),
    ) -> Result<(), (u64, Refusal)> {
        with!(self, driver => driver.write_with(handle, at, len, fill))
    }

    pub(crate) fn read_with(
        &mut self,
        handle: HandleId,
        at: FileOffset,
        len: u64,
        see: impl FnMut(&[u8], u64),
    ) -> Result<u64, Refusal> {
        with!(self, driver => driver.read_with(handle, at, len, see))
    }

    pub(crate) fn punch(&mut self, handle: HandleId, range: FileRange) -> Result<(), Refusal> {
        with!(self, driver => driver.punch(handle, range))
    }

    pub(crate) fn sync(&mut self, handle: HandleId) -> Result<(), Refusal> {
        with!(self, driver => driver.sync(handle))
    }

    pub(crate) fn counts(&self) -> &Counts {
        with!(self, driver => driver.engine().counts())
    }

    pub(crate) fn transfers(&self) -> &Transfers {
        with!(self, driver => driver.transfers())
    }

    pub(crate) fn files(&self) -> &Files {
        with!(self, driver => driver.host())
    }
}

/// Pages of memory for folios; those given back are used again.
#[derive(Debug, Default)]
pub(crate) struct PageMemory {
    free: Vec<Folio>,
}

/// Memory kept for the next folio of the same size.
const FREE_MAX: usize = 64;

impl Memory for PageMemory {
    type Bytes = Folio;

    fn allocate(&mut self, len: usize) -> Result<Folio, NoMemory> {
        if let Some(nth) = self.free.iter().rposition(|folio| folio.len() == len) {
            return Ok(self.free.swap_remove(nth));
        }
        Folio::zeroed(len).map_err(|_| NoMemory)
    }

    fn zero(&mut self, bytes: &mut Folio, range: Range<usize>) {
        if let Some(part) = bytes.get_mut(range) {
            part.fill(0);
        }
    }

    fn release(&mut self, bytes: Folio) {
        if self.free.len() == FREE_MAX {
            self.free.remove(0);
        }
        self.free.push(bytes);
    }
}
