//! What the operating system's errors mean.

use extentwise_device::{DeviceError, ErrorClass};
use rustix::io::Errno;

/// The class of each number that has one of its own; every other is
/// [`ErrorClass::Io`].
const CLASSES: &[(Errno, ErrorClass)] = &[
    (Errno::IO, ErrorClass::Io),
    (Errno::NOSPC, ErrorClass::NoSpace),
    (Errno::DQUOT, ErrorClass::Quota),
    (Errno::FBIG, ErrorClass::TooLarge),
    (Errno::OVERFLOW, ErrorClass::TooLarge),
    (Errno::ROFS, ErrorClass::ReadOnly),
    (Errno::NOMEM, ErrorClass::NoMemory),
    (Errno::NOBUFS, ErrorClass::NoMemory),
    (Errno::OPNOTSUPP, ErrorClass::Unsupported),
    (Errno::NOSYS, ErrorClass::Unsupported),
    (Errno::NOTTY, ErrorClass::Unsupported),
    (Errno::SPIPE, ErrorClass::Unsupported),
    (Errno::ACCESS, ErrorClass::Denied),
    (Errno::PERM, ErrorClass::Denied),
    // The handle was not opened for this.
    (Errno::BADF, ErrorClass::Denied),
    (Errno::NODEV, ErrorClass::Gone),
    (Errno::NXIO, ErrorClass::Gone),
];

/// The class of an error of the operating system (E3).
#[must_use]
pub fn class_of_os_code(os_code: i32) -> ErrorClass {
    let class = CLASSES
        .iter()
        .find(|(errno, _)| errno.raw_os_error() == os_code);
    class.map_or(ErrorClass::Io, |(_, class)| *class)
}

/// The error of a device with the number that the operating system gave.
pub(crate) fn device_error(errno: Errno) -> DeviceError {
    let code = errno.raw_os_error();
    DeviceError::with_os_code(class_of_os_code(code), code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e3_no_space_stays_no_space_and_an_unknown_number_is_an_io_error() {
        for (errno, class) in CLASSES {
            let error = device_error(*errno);
            assert_eq!(error.class(), *class);
            assert_eq!(error.os_code(), Some(errno.raw_os_error()));
        }
        for code in [0, -1, i32::MAX, Errno::INVAL.raw_os_error()] {
            assert_eq!(class_of_os_code(code), ErrorClass::Io);
        }
    }

    #[test]
    fn a_number_has_one_class() {
        for (index, (errno, _)) in CLASSES.iter().enumerate() {
            let again = CLASSES[index + 1..].iter().any(|(other, _)| other == errno);
            assert!(!again, "{errno:?} stands twice");
        }
    }
}
