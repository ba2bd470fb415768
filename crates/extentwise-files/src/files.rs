//! Files as devices, opened when they are needed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use anyhow::{Error, Result, anyhow, bail};
use extentwise_device::{
    Device, DeviceError, DeviceGeometry, DiskByte, ErrorClass, LenBytes, zero_exact,
};
use extentwise_engine::{FileId, FileOffset, FileRange, Host, Identity, Loss};
use extentwise_host::{
    DirectDevice, FileDevice, FileOptions, OpenCause, OpenError, class_of_os_code,
};
#[cfg(feature = "uring")]
use extentwise_host::{RingFile, RingTarget, UringDevice};

use crate::times::Times;

/// Open files at a time; more than that are closed and opened again later, so
/// that there may be any number of files.
const OPEN_MAX: usize = 192;

/// Zeros that are written at a time, where a file system has no holes.
const ZEROS_LEN: usize = 64 << 10;

/// How files are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// Through the page cache of the operating system.
    #[default]
    Buffered,
    /// Past the page cache (`O_DIRECT`).
    Direct,
    /// Past the page cache, by `io_uring`.
    Uring,
}

impl DeviceKind {
    #[cfg(not(feature = "uring"))]
    pub(crate) fn no_uring() -> Error {
        anyhow!("io_uring: this program was built without the feature `uring`")
    }
}

/// Who has the rings of files that are written by `io_uring`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// The driver of one thread, for all files.
    OfDriver,
    /// Each file has its own, as threads need it.
    OfFiles,
}

/// What a sync promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Everything is on the storage.
    #[default]
    Stored,
    /// The operating system has everything, and its crash may lose it. The
    /// engine is to be told that nothing needs a flush
    /// ([`WriteThrough`](extentwise_engine::WriteCache::WriteThrough)).
    Handed,
}

/// Files that are written through a cache, opened when they are needed.
///
/// **Invariant**: `open` counts the files that have a device, at most
/// 192.
pub struct Files {
    kind: DeviceKind,
    durability: Durability,
    list: Vec<LazyFile>,
    open: Mutex<usize>,
    seen: Arc<Seen>,
}

/// What happened to all files.
struct Seen {
    /// Some file has a failure that nobody asked for.
    failed: AtomicBool,
    writes: Mutex<Times>,
    written_bytes: AtomicU64,
}

impl Files {
    /// The files at `paths`. Whether they can be opened so, and take blocks of
    /// this size, is tried with the first.
    pub fn new(paths: &[PathBuf], kind: DeviceKind, rings: Rings, block_size: u64) -> Result<Self> {
        let way = Way::new(kind, rings);
        let mut geometry = BUFFERED;
        if kind != DeviceKind::Buffered
            && let Some(first) = paths.first()
        {
            let device = OpenFile::open(first, way)?;
            geometry = device.as_device().geometry();
            let wanted = u64::from(geometry.logical_block());
            if !block_size.is_multiple_of(wanted) {
                bail!(
                    "block size {block_size}: must be at least {wanted} for direct I/O on {}",
                    first.display()
                );
            }
        }
        let seen = Arc::new(Seen {
            failed: AtomicBool::new(false),
            writes: Mutex::new(Times::new()),
            written_bytes: AtomicU64::new(0),
        });
        let file = |path: &PathBuf| LazyFile {
            path: path.clone(),
            way,
            geometry,
            device: RwLock::new(None),
            failure: Mutex::new(None),
            seen: Arc::clone(&seen),
        };
        Ok(Self {
            kind,
            durability: Durability::Stored,
            list: paths.iter().map(file).collect(),
            open: Mutex::new(0),
            seen,
        })
    }

    /// The same with another promise of syncs.
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// What failed first with any file since somebody asked, for people; the
    /// engine knows classes only.
    pub fn take_failure(&self) -> Option<Error> {
        if !self.seen.failed.swap(false, Ordering::AcqRel) {
            return None;
        }
        let failures = self.list.iter().filter_map(LazyFile::take_failure);
        // The others would be told of another call.
        failures.fold(None, |first, failure| first.or(Some(failure)))
    }

    /// As [`take_failure`](Self::take_failure), of one file.
    pub fn take_failure_of(&self, nth: usize) -> Option<Error> {
        if !self.seen.failed.load(Ordering::Acquire) {
            return None;
        }
        self.list.get(nth).and_then(LazyFile::take_failure)
    }

    pub(crate) fn kind(&self) -> DeviceKind {
        self.kind
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = FileId> + use<> {
        (0..).take(self.list.len()).map(FileId)
    }

    /// The map of the files, which are empty.
    pub(crate) fn mapping(&self) -> Identity {
        let mut mapping = Identity::new();
        for id in self.ids() {
            mapping.add(id, FileOffset::ZERO);
        }
        mapping
    }

    /// How long the calls of writes took.
    pub(crate) fn write_times(&self) -> Times {
        locked(&self.seen.writes).clone()
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        self.seen.written_bytes.load(Ordering::Relaxed)
    }

    fn file(&self, id: FileId) -> Option<&LazyFile> {
        self.list.get(usize::try_from(id.0).ok()?)
    }
}

impl Host<Identity> for Files {
    type Device = LazyFile;

    fn device(&self, id: FileId) -> Result<&LazyFile, DeviceError> {
        let file = self.file(id).ok_or(ErrorClass::Gone)?;
        if file.is_open() {
            return Ok(file);
        }
        let mut open = locked(&self.open);
        if file.is_open() {
            return Ok(file);
        }
        if *open >= OPEN_MAX {
            self.list.iter().for_each(LazyFile::close);
            *open = 0;
        }
        file.put(file.open()?);
        *open += 1;
        Ok(file)
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
            .and_then(|()| match self.durability {
                Durability::Stored => file.flush(),
                Durability::Handed => Ok(()),
            });
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

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Files");
        text.field("kind", &self.kind)
            .field("files", &self.list.len())
            .finish_non_exhaustive()
    }
}

/// How a file is opened.
#[derive(Clone, Copy)]
enum Way {
    Buffered,
    Direct,
    /// Direct, with a ring of its own.
    Ring,
}

impl Way {
    fn new(kind: DeviceKind, rings: Rings) -> Self {
        match (kind, rings) {
            (DeviceKind::Buffered, _) => Self::Buffered,
            (DeviceKind::Direct, _) | (DeviceKind::Uring, Rings::OfDriver) => Self::Direct,
            (DeviceKind::Uring, Rings::OfFiles) => Self::Ring,
        }
    }
}

/// Any address and length: a file through the operating system's cache.
const BUFFERED: DeviceGeometry = match DeviceGeometry::new(1, 4096) {
    Ok(geometry) => geometry,
    Err(_) => panic!("both are powers of two"),
};

/// A file, opened in one way or another.
enum OpenFile {
    Buffered(FileDevice),
    Direct(DirectDevice),
    #[cfg(feature = "uring")]
    Ring(Box<UringDevice>),
}

impl OpenFile {
    fn open(path: &Path, way: Way) -> Result<Self> {
        let options = FileOptions::default();
        match way {
            Way::Buffered => Ok(Self::Buffered(FileDevice::open(path, options)?)),
            Way::Direct => Ok(Self::Direct(DirectDevice::open(path, options)?)),
            #[cfg(feature = "uring")]
            Way::Ring => {
                let direct = DirectDevice::open(path, options)?;
                Ok(Self::Ring(Box::new(UringDevice::direct(direct)?)))
            }
            #[cfg(not(feature = "uring"))]
            Way::Ring => Err(DeviceKind::no_uring()),
        }
    }

    fn as_device(&self) -> &dyn Device {
        match self {
            Self::Buffered(device) => device,
            Self::Direct(device) => device,
            #[cfg(feature = "uring")]
            Self::Ring(device) => &**device,
        }
    }

    fn set_len(&self, len: LenBytes) -> Result<(), DeviceError> {
        match self {
            Self::Buffered(device) => device.set_len(len),
            Self::Direct(device) => device.set_len(len),
            #[cfg(feature = "uring")]
            Self::Ring(device) => device.set_len(len),
        }
    }
}

/// A file that may be closed between two calls.
pub struct LazyFile {
    path: PathBuf,
    way: Way,
    geometry: DeviceGeometry,
    device: RwLock<Option<Arc<OpenFile>>>,
    /// What failed first since somebody asked.
    failure: Mutex<Option<Error>>,
    seen: Arc<Seen>,
}

impl LazyFile {
    fn is_open(&self) -> bool {
        self.current().is_some()
    }

    fn current(&self) -> Option<Arc<OpenFile>> {
        let device = self.device.read().unwrap_or_else(PoisonError::into_inner);
        device.clone()
    }

    fn put(&self, device: OpenFile) {
        let mut place = self.device.write().unwrap_or_else(PoisonError::into_inner);
        *place = Some(Arc::new(device));
    }

    /// Closes the file when the last call on it is over.
    fn close(&self) {
        let mut place = self.device.write().unwrap_or_else(PoisonError::into_inner);
        *place = None;
    }

    fn open(&self) -> Result<OpenFile, DeviceError> {
        OpenFile::open(&self.path, self.way).map_err(|error| {
            let code = error.downcast_ref().and_then(|error: &OpenError| {
                let OpenCause::Os(error) = error.cause() else {
                    return None;
                };
                error.raw_os_error()
            });
            self.keep(error);
            match code {
                Some(code) => DeviceError::with_os_code(class_of_os_code(code), code),
                None => DeviceError::new(ErrorClass::Denied),
            }
        })
    }

    fn keep(&self, failure: Error) {
        locked(&self.failure).get_or_insert(failure);
        self.seen.failed.store(true, Ordering::Release);
    }

    fn take_failure(&self) -> Option<Error> {
        locked(&self.failure).take()
    }

    fn note(&self, what: &str) {
        self.keep(anyhow!("{}: {what}", self.path.display()));
    }

    /// Calls the device, and notes what it answers if that is an error.
    fn with<T>(
        &self,
        what: impl Fn() -> String,
        call: impl FnOnce(&OpenFile) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let result = match self.current() {
            Some(device) => call(&device),
            None => call(&self.open()?),
        };
        if let Err(error) = &result
            && error.class() != ErrorClass::Unsupported
        {
            self.note_error(&what(), *error);
        }
        result
    }

    fn note_error(&self, what: &str, error: DeviceError) {
        let cause = match error.os_code() {
            Some(code) => std::io::Error::from_raw_os_error(code).to_string(),
            None => error.to_string(),
        };
        self.note(&format!("{what}: {cause}"));
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
            Err(error) if error.class() == ErrorClass::Unsupported => {
                let block = self.geometry.logical_block() as usize;
                zero_exact(self, at, len, &mut vec![0; ZEROS_LEN.max(block)])
            }
            result => result,
        }
    }
}

impl Device for LazyFile {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        self.with(
            || format!("reading at {at}"),
            |file| file.as_device().read(at, buffers),
        )
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let started = Instant::now();
        let written = self.with(
            || format!("writing at {at}"),
            |file| file.as_device().write(at, buffers),
        )?;
        let nanos = started.elapsed().as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        locked(&self.seen.writes).record(nanos);
        let bytes = &self.seen.written_bytes;
        bytes.fetch_add(written.get(), Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.with(|| "fdatasync".to_owned(), |file| file.as_device().flush())
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.with(
            || format!("zeroing {len} bytes at {at}"),
            |file| file.as_device().write_zeroes(at, len),
        )
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.with(
            || format!("punching a hole of {len} bytes at {at}"),
            |file| file.as_device().discard(at, len),
        )
    }
}

#[cfg(feature = "uring")]
impl RingFile for LazyFile {
    fn ring_target(&self) -> Result<RingTarget, DeviceError> {
        self.with(
            || "opening".to_owned(),
            |file| match file {
                OpenFile::Buffered(device) => device.ring_target(),
                OpenFile::Direct(device) => device.ring_target(),
                OpenFile::Ring(device) => device.ring_target(),
            },
        )
    }

    fn ring_failed(&self, at: DiskByte, error: DeviceError) {
        self.note_error(&format!("a transfer at {at}"), error);
    }
}

/// What a thread that panicked left is as good as a call that failed.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
