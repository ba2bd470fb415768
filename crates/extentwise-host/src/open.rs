//! How a file becomes a device, and why not.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What a device may do with its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads only; writes are refused with the class
    /// [`Denied`](extentwise_device::ErrorClass::Denied).
    Read,
    /// Reads and writes.
    #[default]
    ReadWrite,
}

/// Whether a file that is not there is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missing {
    /// It is an error.
    #[default]
    Refuse,
    /// An empty one is made.
    Create,
}

/// Whether others are kept away from a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lock {
    /// Nobody is.
    #[default]
    None,
    /// Whoever asks for a lock (`flock`) as well: the device is refused if
    /// somebody has one, and has it itself as long as it is open.
    Exclusive,
}

/// How to open a file as a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileOptions {
    /// What may be done with it.
    pub access: Access,
    /// What happens if it is not there.
    pub missing: Missing,
    /// Whether others are kept away.
    pub lock: Lock,
}

/// A file that cannot be a device: its path, if it was opened by one, and why.
#[derive(Debug)]
pub struct OpenError {
    path: Option<PathBuf>,
    cause: OpenCause,
}

/// Why a file cannot be a device.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenCause {
    /// It is no file and no block or character device, but what is named here.
    Kind(&'static str),
    /// Somebody has a lock on it.
    InUse,
    /// It was opened to append, where writes ignore their address.
    Append,
    /// It was opened for direct I/O, which asks for aligned memory.
    Direct,
    /// Direct I/O is asked for, and its file system has none.
    NoDirect,
    /// Direct I/O asks for an alignment that is no power of two up to 2 MiB.
    Alignment(u32),
    /// What the operating system answered.
    Os(io::Error),
}

impl OpenError {
    /// Why.
    #[must_use]
    pub fn cause(&self) -> &OpenCause {
        &self.cause
    }

    pub(crate) fn at(self, path: &Path) -> Self {
        Self {
            path: Some(path.to_owned()),
            ..self
        }
    }
}

impl From<OpenCause> for OpenError {
    fn from(cause: OpenCause) -> Self {
        Self { path: None, cause }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        OpenCause::Os(error).into()
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        match &self.cause {
            OpenCause::Kind(kind) => {
                write!(f, "is a {kind}: a device is a file or a block device")
            }
            OpenCause::InUse => f.write_str("is in use by another process: it holds a lock"),
            OpenCause::Append => {
                f.write_str("is open to append: a device writes at the address it is given")
            }
            OpenCause::Direct => {
                f.write_str("is open for direct I/O (O_DIRECT): a file device is buffered")
            }
            OpenCause::NoDirect => {
                f.write_str("has no direct I/O (O_DIRECT): its file system is buffered")
            }
            OpenCause::Alignment(align) => write!(
                f,
                "asks for direct I/O aligned to {align}: must be a power of two up to 2097152"
            ),
            OpenCause::Os(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            OpenCause::Os(error) => Some(error),
            _ => None,
        }
    }
}
