//! Files of the kernel as devices below a cache of ours.

use extentwise_device::{Device, DeviceError, ErrorClass, LenBytes};
use extentwise_engine::{FileId, Host, Identity};
use extentwise_host::{DirectDevice, FileDevice};

/// A device each file, by its number.
#[derive(Debug)]
pub(crate) struct Files<D>(pub(crate) Vec<D>);

/// A device that has a length.
pub(crate) trait HasLength: Device {
    fn len(&self) -> Result<LenBytes, DeviceError>;
    fn set_len(&self, len: LenBytes) -> Result<(), DeviceError>;
}

impl HasLength for FileDevice {
    fn len(&self) -> Result<LenBytes, DeviceError> {
        self.len()
    }

    fn set_len(&self, len: LenBytes) -> Result<(), DeviceError> {
        self.set_len(len)
    }
}

impl HasLength for DirectDevice {
    fn len(&self) -> Result<LenBytes, DeviceError> {
        self.len()
    }

    fn set_len(&self, len: LenBytes) -> Result<(), DeviceError> {
        self.set_len(len)
    }
}

impl<D: HasLength> Host<Identity> for Files<D> {
    type Device = D;

    fn device(&self, file: FileId) -> Result<&D, DeviceError> {
        let device = usize::try_from(file.0).ok().and_then(|nth| self.0.get(nth));
        device.ok_or_else(|| ErrorClass::Gone.into())
    }

    fn persist(&self, mapping: &mut Identity, file: FileId) -> Result<(), DeviceError> {
        let Some(pending) = mapping.take_pending(file) else {
            return Ok(());
        };
        let device = self.device(file)?;
        let len = LenBytes::new(pending.size.get());
        if device.len()? == len {
            return Ok(());
        }
        device.set_len(len)?;
        device.flush()
    }
}
