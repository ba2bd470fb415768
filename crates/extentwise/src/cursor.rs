//! A file handle with a position.

use std::io;

use extentwise_engine::{ErrorClass, Host, Mapping, Refusal};

use crate::{File, Patience};

/// A position in a [`File`], for `std::io`.
#[derive(Debug)]
pub struct Cursor<'a, P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    file: &'a File<P, H>,
    position: u64,
}

impl<'a, P, H> Cursor<'a, P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    pub(crate) const fn new(file: &'a File<P, H>) -> Self {
        Self { file, position: 0 }
    }
}

impl<P, H> io::Read for Cursor<'_, P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(self.position, into).map_err(io_error)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl<P, H> io::Write for Cursor<'_, P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let written = self
            .file
            .write_part(self.position, bytes, Patience::Wait)
            .map_err(io_error)?;
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync().map_err(io_error)
    }
}

impl<P, H> io::Seek for Cursor<'_, P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let target = match to {
            io::SeekFrom::Start(at) => Some(at),
            io::SeekFrom::Current(by) => self.position.checked_add_signed(by),
            io::SeekFrom::End(by) => {
                let size = self.file.size().map_err(io_error)?;
                size.checked_add_signed(by)
            }
        };
        self.position = target.ok_or_else(|| {
            let message = format!("seek {to:?}: before the start or past 2^64 - 1");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        Ok(self.position)
    }
}

/// The kind that the standard library has for a refusal, with its sentence.
fn io_error(refusal: Refusal) -> io::Error {
    let class = match refusal {
        Refusal::Failed(class) | Refusal::Latched(class) => class,
        Refusal::Busy => return io::Error::new(io::ErrorKind::WouldBlock, refusal),
        Refusal::Range(_) | Refusal::NotOpen => {
            return io::Error::new(io::ErrorKind::InvalidInput, refusal);
        }
    };
    let kind = match class {
        ErrorClass::NoSpace => io::ErrorKind::StorageFull,
        ErrorClass::Quota => io::ErrorKind::QuotaExceeded,
        ErrorClass::TooLarge => io::ErrorKind::FileTooLarge,
        ErrorClass::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
        ErrorClass::NoMemory => io::ErrorKind::OutOfMemory,
        ErrorClass::Unsupported => io::ErrorKind::Unsupported,
        ErrorClass::Denied => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, refusal)
}
