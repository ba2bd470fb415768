//! The engine under a replay: each file of the trace is a device of its own.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Error, Result, anyhow, bail};
use extentwise_device::{
    Device, DeviceError, DeviceGeometry, DiskByte, ErrorClass, LenBytes, write_all,
};
use extentwise_engine::{
    BioLimits, BlockSize, Config, Driver, Engine as Cache, FileId, FileOffset, FileRange, HandleId,
    Host, Identity, Loss, Memory, NoMemory, Refusal, Stride,
};
use extentwise_host::{FileDevice, FileOptions, OpenCause, class_of_os_code};
use extentwise_memory::Folio;

use super::least::LeastWrites;
use super::report::Work;
use super::settings::Settings;
use super::{Mode, pattern};

/// Open files at a time; more than that are closed and opened again later, so
/// that a trace may name any number of files.
const OPEN_MAX: usize = 256;

/// The cache of all files of a replay, over the files.
pub(crate) struct Engine {
    driver: Driver<PageMemory, Identity, Files>,
    handles: Vec<HandleId>,
    least: LeastWrites,
    work: Work,
}

impl Engine {
    /// A cache of the files at `paths`, which are empty.
    pub(crate) fn new(paths: &[PathBuf], settings: &Settings) -> Result<Self> {
        let mut config = Config::new(BlockSize::new(settings.geometry.block_size())?)
            .with_cache_bytes(LenBytes::new(settings.cache_size))
            .with_dirty_bytes(LenBytes::new(settings.dirty_limit));
        config.folio_bytes_max = LenBytes::new(settings.geometry.folio_size());
        config.extent_bytes_max = LenBytes::new(settings.geometry.max_extent());
        // One thread writes and writes back: to begin early gains nothing.
        config.dirty_bytes_background = config.dirty_bytes_max;
        config.file_dirty_bytes_max = config.dirty_bytes_max;
        config.bio_limits = BioLimits::UNLIMITED;
        config.policy = settings.policy.into();
        config.stride = match settings.mode {
            Mode::Extent => Stride::Extent,
            Mode::Block => Stride::Block,
        };
        let ids = (0..).take(paths.len()).map(FileId);
        let mut mapping = Identity::new();
        for id in ids.clone() {
            mapping.add(id, FileOffset::ZERO);
        }
        let mut cache = Cache::new(config, PageMemory::default(), mapping)?;
        let handles: Result<_, Refusal> = ids.map(|id| cache.open(id, FileOffset::ZERO)).collect();
        Ok(Self {
            driver: Driver::new(cache, Files::new(paths)),
            handles: handles?,
            least: LeastWrites::new(settings),
            work: Work::new(),
        })
    }

    /// Writes `range` of a file into the cache, with the pattern of the write of
    /// this number; the file grows if the range ends past its size.
    pub(crate) fn write(&mut self, file: usize, range: Range<u64>, write: u64) -> Result<()> {
        self.least.write(file, range.clone());
        let start = range.start;
        self.timed(file, |driver, handle| {
            let put = |bytes: &mut [u8], into: u64| pattern::fill(bytes, start + into, write);
            let at = FileOffset::new(start);
            driver
                .write_with(handle, at, range.end - start, put)
                .map_err(|(_, refusal)| refusal)
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
        let len = range.end - range.start;
        let read = self.timed(file, |driver, handle| {
            driver.read_with(handle, FileOffset::new(range.start), len, |bytes, into| {
                if seen.is_ok() {
                    seen = see(bytes, range.start + into);
                }
            })
        })?;
        seen?;
        if read != len {
            bail!(
                "read [{}, {}): only {read} bytes came",
                range.start,
                range.end
            );
        }
        Ok(())
    }

    /// Makes `range`, which must lie in the file, read as zero.
    pub(crate) fn trim(&mut self, file: usize, range: Range<u64>) -> Result<()> {
        self.least.trim(file, range.clone());
        let range = FileRange::clamped(FileOffset::new(range.start), FileOffset::new(range.end));
        self.timed(file, |driver, handle| driver.punch(handle, range))
    }

    /// Writes a file back and makes it durable, its size too.
    pub(crate) fn sync(&mut self, file: usize) -> Result<()> {
        self.least.sync(file);
        self.timed(file, Driver::sync)
    }

    /// Drops the cache; answers what was done.
    pub(crate) fn into_work(mut self) -> Work {
        let (counts, transfers) = (self.driver.engine().counts(), self.driver.transfers());
        self.work.folios = counts.folios;
        self.work.folio_passes = counts.passes;
        self.work.dirtied_bytes = counts.dirtied_bytes;
        self.work.ordered_extents = counts.ordered_extents;
        self.work.bios = counts.bios;
        self.work.device_writes = transfers.writes;
        self.work.device_bytes = transfers.write_bytes;
        self.work.least_device_writes = self.least.count();
        self.work
    }

    /// Calls the engine for a file, takes the time where it wrote back, and says
    /// what the operating system answered if it fails.
    fn timed<T>(
        &mut self,
        file: usize,
        call: impl FnOnce(&mut Driver<PageMemory, Identity, Files>, HandleId) -> Result<T, Refusal>,
    ) -> Result<T> {
        let handle = self.handles.get(file).copied();
        let handle = handle.context("the trace names a file that is not there")?;
        let passes = self.driver.engine().counts().passes;
        let started = Instant::now();
        let result = call(&mut self.driver, handle);
        if self.driver.engine().counts().passes != passes {
            let nanos = started.elapsed().as_nanos();
            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
            self.work.writeback.record(nanos);
        }
        match (result, self.driver.host().take_failure()) {
            (Ok(value), None) => Ok(value),
            (Err(Refusal::Failed(_)) | Ok(_), Some(failure)) => Err(failure),
            (Err(refusal), None) => Err(Error::from(refusal)),
            (Err(refusal), Some(failure)) => Err(failure.context(refusal)),
        }
    }
}

/// Any address and length: a file through the operating system's cache.
const BUFFERED: DeviceGeometry = match DeviceGeometry::new(1, 4096) {
    Ok(geometry) => geometry,
    Err(_) => panic!("both are powers of two"),
};

/// Pages of memory for folios; those given back are used again.
#[derive(Debug, Default)]
struct PageMemory {
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

/// The files of a replay, opened when they are needed.
///
/// **Invariant**: `open` counts the files that have a device, at most
/// [`OPEN_MAX`].
struct Files {
    files: Vec<LazyFile>,
    open: Cell<usize>,
}

impl Files {
    fn new(paths: &[PathBuf]) -> Self {
        let file = |path: &PathBuf| LazyFile {
            path: path.clone(),
            device: RefCell::new(None),
            failure: RefCell::new(None),
        };
        Self {
            files: paths.iter().map(file).collect(),
            open: Cell::new(0),
        }
    }

    /// What failed first since somebody asked, for people; the engine knows
    /// classes only.
    fn take_failure(&self) -> Option<Error> {
        let mut files = self.files.iter();
        files.find_map(|file| file.failure.borrow_mut().take())
    }

    fn file(&self, id: FileId) -> Option<&LazyFile> {
        self.files.get(usize::try_from(id.0).ok()?)
    }

    fn opened(&self, id: FileId) -> Result<&LazyFile, DeviceError> {
        let file = self.file(id).ok_or(ErrorClass::Gone)?;
        if file.device.borrow().is_none() {
            if self.open.get() >= OPEN_MAX {
                for file in &self.files {
                    file.device.replace(None);
                }
                self.open.set(0);
            }
            file.device.replace(Some(file.open()?));
            self.open.set(self.open.get() + 1);
        }
        Ok(file)
    }
}

impl Host<Identity> for Files {
    type Device = LazyFile;

    fn device(&self, file: FileId) -> Result<&LazyFile, DeviceError> {
        self.opened(file)
    }

    fn persist(&self, mapping: &mut Identity, id: FileId) -> Result<(), DeviceError> {
        let Some(pending) = mapping.take_pending(id) else {
            return Ok(());
        };
        let file = self.device(id)?;
        let done = pending
            .punch
            .iter()
            .try_for_each(|hole| file.make_hole(*hole))
            .and_then(|()| file.set_len(pending.size))
            .and_then(|()| file.flush());
        if done.is_err() {
            mapping.put_back(id, &pending);
        }
        done
    }

    fn lost(&self, id: FileId, range: FileRange, _why: Loss) {
        if let Some(file) = self.file(id) {
            file.note(&format!("the data of {range} is lost"));
        }
    }
}

/// A file that may be closed between two calls.
struct LazyFile {
    path: PathBuf,
    device: RefCell<Option<FileDevice>>,
    /// What failed first since somebody asked.
    failure: RefCell<Option<Error>>,
}

impl LazyFile {
    fn open(&self) -> Result<FileDevice, DeviceError> {
        FileDevice::open(&self.path, FileOptions::default()).map_err(|error| {
            let code = match error.cause() {
                OpenCause::Os(error) => error.raw_os_error(),
                _ => None,
            };
            self.failure.borrow_mut().get_or_insert(Error::from(error));
            match code {
                Some(code) => DeviceError::with_os_code(class_of_os_code(code), code),
                None => DeviceError::new(ErrorClass::Denied),
            }
        })
    }

    fn note(&self, what: &str) {
        let failure = anyhow!("{}: {what}", self.path.display());
        self.failure.borrow_mut().get_or_insert(failure);
    }

    /// Calls the device, and notes what it answers if that is an error.
    fn with<T>(
        &self,
        what: impl Fn() -> String,
        call: impl FnOnce(&FileDevice) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let result = match &*self.device.borrow() {
            Some(device) => call(device),
            None => call(&self.open()?),
        };
        if let Err(error) = &result
            && error.class() != ErrorClass::Unsupported
        {
            let cause = match error.os_code() {
                Some(code) => std::io::Error::from_raw_os_error(code).to_string(),
                None => error.to_string(),
            };
            self.note(&format!("{}: {cause}", what()));
        }
        result
    }

    fn set_len(&self, len: FileOffset) -> Result<(), DeviceError> {
        self.with(
            || format!("setting its length to {len}"),
            |device| device.set_len(LenBytes::new(len.get())),
        )
    }

    /// Makes a range read as zero; by writing zeros where the file system has no
    /// holes.
    fn make_hole(&self, hole: FileRange) -> Result<(), DeviceError> {
        let (at, len) = (DiskByte::new(hole.start().get()), hole.len());
        // A hole in a file reads as zero.
        match self.discard(at, len) {
            Err(error) if error.class() == ErrorClass::Unsupported => {}
            result => return result,
        }
        let zeros = [0; 4096];
        let mut done = 0;
        while done < len.get() {
            let part = (len.get() - done).min(zeros.len() as u64);
            let place = DiskByte::new(at.get() + done);
            write_all(self, place, &[&zeros[..part as usize]])?;
            done += part;
        }
        Ok(())
    }
}

impl Device for LazyFile {
    fn geometry(&self) -> DeviceGeometry {
        BUFFERED
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        self.with(
            || format!("reading at {at}"),
            |device| device.read(at, buffers),
        )
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        self.with(
            || format!("writing at {at}"),
            |device| device.write(at, buffers),
        )
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.with(|| "fdatasync".to_owned(), Device::flush)
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.with(
            || format!("zeroing {len} bytes at {at}"),
            |device| device.write_zeroes(at, len),
        )
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.with(
            || format!("punching a hole of {len} bytes at {at}"),
            |device| device.discard(at, len),
        )
    }
}
