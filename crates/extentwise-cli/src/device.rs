//! How files are read and written, as the command line says it.

use extentwise_files::DeviceKind;

/// How files are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Device {
    /// Through the page cache of the operating system, one call after the other
    #[default]
    Buffered,
    /// Past the page cache (`O_DIRECT`), one call after the other
    Direct,
    /// Past the page cache, up to 64 calls at a time (`io_uring`)
    Uring,
}

impl From<Device> for DeviceKind {
    fn from(device: Device) -> Self {
        match device {
            Device::Buffered => Self::Buffered,
            Device::Direct => Self::Direct,
            Device::Uring => Self::Uring,
        }
    }
}
