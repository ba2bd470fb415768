//! The files of a replay as devices.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow, bail};
use extentwise_device::{
    Device, DeviceError, DeviceGeometry, DiskByte, ErrorClass, LenBytes, write_all,
};
use extentwise_engine::{FileId, FileOffset, FileRange, Host, Identity, Loss};
use extentwise_host::{
    DirectDevice, FileDevice, FileOptions, OpenCause, OpenError, class_of_os_code,
};
#[cfg(feature = "uring")]
use extentwise_host::{RingFile, RingTarget};

use super::settings::{DeviceKind, Settings};
use super::sizes::shown;

/// Open files at a time; more than that are closed and opened again later, so
/// that a trace may name any number of files.
const OPEN_MAX: usize = 256;

/// The files of a replay, opened when they are needed.
///
/// **Invariant**: `open` counts the files that have a device, at most
/// [`OPEN_MAX`].
pub(crate) struct Files {
    files: Vec<LazyFile>,
    open: Cell<usize>,
}

impl Files {
    /// The files at `paths`. Whether they can be opened so, and take the blocks
    /// of the replay, is tried with the first.
    pub(crate) fn new(paths: &[PathBuf], settings: &Settings) -> Result<Self> {
        let block = settings.geometry.block_size();
        let mut geometry = BUFFERED;
        if settings.device != DeviceKind::Buffered
            && let Some(first) = paths.first()
        {
            let device = OpenFile::open(first, settings.device)?;
            geometry = device.as_device().geometry();
            let wanted = u64::from(geometry.logical_block());
            if !block.is_multiple_of(wanted) {
                bail!(
                    "--block-size {}: must be at least {} for direct I/O on {}",
                    shown(block),
                    shown(wanted),
                    first.display()
                );
            }
        }
        let file = |path: &PathBuf| LazyFile {
            path: path.clone(),
            kind: settings.device,
            geometry,
            device: RefCell::new(None),
            failure: RefCell::new(None),
        };
        Ok(Self {
            files: paths.iter().map(file).collect(),
            open: Cell::new(0),
        })
    }

    /// What failed first since somebody asked, for people; the engine knows
    /// classes only.
    pub(crate) fn take_failure(&self) -> Option<Error> {
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

/// Any address and length: a file through the operating system's cache.
const BUFFERED: DeviceGeometry = match DeviceGeometry::new(1, 4096) {
    Ok(geometry) => geometry,
    Err(_) => panic!("both are powers of two"),
};

/// A file, opened in one way or another.
enum OpenFile {
    Buffered(FileDevice),
    Direct(DirectDevice),
}

impl OpenFile {
    fn open(path: &Path, kind: DeviceKind) -> Result<Self, OpenError> {
        let options = FileOptions::default();
        match kind {
            DeviceKind::Buffered => FileDevice::open(path, options).map(Self::Buffered),
            DeviceKind::Direct | DeviceKind::Uring => {
                DirectDevice::open(path, options).map(Self::Direct)
            }
        }
    }

    fn as_device(&self) -> &dyn Device {
        match self {
            Self::Buffered(device) => device,
            Self::Direct(device) => device,
        }
    }

    fn set_len(&self, len: LenBytes) -> Result<(), DeviceError> {
        match self {
            Self::Buffered(device) => device.set_len(len),
            Self::Direct(device) => device.set_len(len),
        }
    }
}

/// A file that may be closed between two calls.
pub(crate) struct LazyFile {
    path: PathBuf,
    kind: DeviceKind,
    geometry: DeviceGeometry,
    device: RefCell<Option<OpenFile>>,
    /// What failed first since somebody asked.
    failure: RefCell<Option<Error>>,
}

impl LazyFile {
    fn open(&self) -> Result<OpenFile, DeviceError> {
        OpenFile::open(&self.path, self.kind).map_err(|error| {
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
        call: impl FnOnce(&OpenFile) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let result = match &*self.device.borrow() {
            Some(device) => call(device),
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
            Err(error) if error.class() == ErrorClass::Unsupported => {}
            result => return result,
        }
        // The end is where the device has nothing more: it may be passed by a part
        // of a block, as the length is set next.
        let block = u64::from(self.geometry.logical_block());
        let len = len.get().next_multiple_of(block);
        let zeros = vec![0; block.max(65536) as usize];
        let mut done = 0;
        while done < len {
            let part = (len - done).min(zeros.len() as u64);
            let place = DiskByte::new(at.get() + done);
            write_all(self, place, &[&zeros[..part as usize]])?;
            done += part;
        }
        Ok(())
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
        self.with(
            || format!("writing at {at}"),
            |file| file.as_device().write(at, buffers),
        )
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
            },
        )
    }

    fn ring_failed(&self, at: DiskByte, error: DeviceError) {
        self.note_error(&format!("a transfer at {at}"), error);
    }
}
