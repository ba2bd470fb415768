//! Why a device refused.

use core::fmt;

use crate::ErrorClass;

/// What a device answers when it fails: the class, which decides what happens
/// next and survives every hand-over (E3), and the operating system's number if
/// there was one, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceError {
    class: ErrorClass,
    os_code: Option<i32>,
}

impl DeviceError {
    /// The device has no such operation.
    pub const UNSUPPORTED: Self = Self::new(ErrorClass::Unsupported);

    /// An error of this class.
    #[must_use]
    pub const fn new(class: ErrorClass) -> Self {
        Self {
            class,
            os_code: None,
        }
    }

    /// An error of this class that the operating system numbered `os_code`.
    #[must_use]
    pub const fn with_os_code(class: ErrorClass, os_code: i32) -> Self {
        Self {
            class,
            os_code: Some(os_code),
        }
    }

    /// What kind of failure it is.
    #[must_use]
    pub const fn class(self) -> ErrorClass {
        self.class
    }

    /// The operating system's number, if it gave one.
    #[must_use]
    pub const fn os_code(self) -> Option<i32> {
        self.os_code
    }
}

impl From<ErrorClass> for DeviceError {
    fn from(class: ErrorClass) -> Self {
        Self::new(class)
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.os_code {
            Some(code) => write!(f, "{} (os error {code})", self.class),
            None => self.class.fmt(f),
        }
    }
}

impl core::error::Error for DeviceError {}
