//! Why a scenario is refused.

use std::error::Error;
use std::fmt;

/// A scenario that breaks a rule of the format: which key, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The scenario's name, where the input was readable enough to have one.
    pub name: Option<String>,
    /// The path of the key, such as `folios[0].submit`; empty when the input
    /// is not JSON at all.
    pub key: String,
    /// The rule and the value that breaks it.
    pub reason: String,
}

impl Invalid {
    /// The same refusal, with the name of the scenario that it is about.
    pub(crate) fn of_scenario(self, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..self
        }
    }

    pub(crate) fn new(key: impl fmt::Display, reason: impl Into<String>) -> Self {
        Self {
            name: None,
            key: key.to_string(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            f.write_str(&self.reason)
        } else {
            write!(f, "key \"{}\": {}", self.key, self.reason)
        }
    }
}

impl Error for Invalid {}
