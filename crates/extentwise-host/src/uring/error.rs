//! Why there is no ring.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// A ring that cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum UringError {
    /// So many calls at a time are none, or too many.
    Depth(u32),
    /// The kernel has no `io_uring`, or forbids it here.
    Unavailable(io::Error),
    /// What else the operating system answered.
    Os(io::Error),
}

impl UringError {
    /// The most calls that are under way at a time.
    pub const DEPTH_MAX: u32 = 4096;

    pub(super) fn of(error: io::Error) -> Self {
        let none = [Errno::NOSYS, Errno::PERM, Errno::ACCESS, Errno::OPNOTSUPP];
        let code = error.raw_os_error();
        if none.iter().any(|errno| code == Some(errno.raw_os_error())) {
            Self::Unavailable(error)
        } else {
            Self::Os(error)
        }
    }
}

impl fmt::Display for UringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Depth(depth) => write!(
                f,
                "io_uring depth {depth}: must be from 1 to {}",
                Self::DEPTH_MAX
            ),
            Self::Unavailable(error) => write!(
                f,
                "io_uring is not available: {error} (an old kernel, kernel.io_uring_disabled or a sandbox)"
            ),
            Self::Os(error) => write!(f, "io_uring: {error}"),
        }
    }
}

impl std::error::Error for UringError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Depth(_) => None,
            Self::Unavailable(error) | Self::Os(error) => Some(error),
        }
    }
}
