//! Typed reading of a [`Json`] tree; every refusal names the path.

use std::fmt;
use std::ops::Range;

use crate::Invalid;
use crate::json::Json;
use crate::ranges;

/// Where in the scenario a value stands. A linked list on the stack: the path
/// is spelled out only when something is refused.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    Root,
    Key(&'a At<'a>, &'a str),
    Index(&'a At<'a>, usize),
}

impl<'a> At<'a> {
    pub(crate) fn key(&'a self, key: &'a str) -> At<'a> {
        At::Key(self, key)
    }

    pub(crate) fn index(&'a self, index: usize) -> At<'a> {
        At::Index(self, index)
    }

    pub(crate) fn refuse(&self, reason: impl Into<String>) -> Invalid {
        Invalid::new(self, reason)
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root => Ok(()),
            At::Key(At::Root, key) => f.write_str(key),
            At::Key(parent, key) => write!(f, "{parent}.{key}"),
            At::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// The entries of one object; all keys are known and none stands twice.
pub(crate) struct Fields<'f, 'j> {
    entries: &'f [(std::borrow::Cow<'j, str>, Json<'j>)],
    at: At<'f>,
}

impl<'f, 'j> Fields<'f, 'j> {
    /// Refuses anything that is not an object with only `known` keys.
    pub(crate) fn new(json: &'f Json<'j>, at: At<'f>, known: &[&str]) -> Result<Self, Invalid> {
        let Json::Object(entries) = json else {
            return Err(at.refuse(format!("{json} is not an object")));
        };
        for (index, (key, _)) in entries.iter().enumerate() {
            if !known.contains(&key.as_ref()) {
                let known = known.join(", ");
                return Err(at
                    .key(key)
                    .refuse(format!("unknown key; known here are {known}")));
            }
            // At most one entry per known key gets this far, so the scan is short.
            if entries[..index].iter().any(|(earlier, _)| earlier == key) {
                return Err(at.key(key).refuse("the key stands twice"));
            }
        }
        Ok(Self { entries, at })
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'f Json<'j>> {
        self.entries
            .iter()
            .find_map(|(name, value)| (name == key).then_some(value))
    }

    pub(crate) fn require(&self, key: &str) -> Result<&'f Json<'j>, Invalid> {
        self.get(key)
            .ok_or_else(|| self.at.key(key).refuse("missing, but required"))
    }

    /// A required value, read by `read`.
    pub(crate) fn required<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Json<'j>, At<'_>) -> Result<T, Invalid>,
    ) -> Result<T, Invalid> {
        read(self.require(key)?, self.at.key(key))
    }

    /// An optional value, read by `read` where it stands.
    pub(crate) fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Json<'j>, At<'_>) -> Result<T, Invalid>,
    ) -> Result<Option<T>, Invalid> {
        self.get(key)
            .map(|value| read(value, self.at.key(key)))
            .transpose()
    }
}

pub(crate) fn number(json: &Json<'_>, at: At<'_>) -> Result<u64, Invalid> {
    match json {
        Json::Number(value) => Ok(*value),
        other => Err(at.refuse(format!("{other} is not an integer from 0 to 2^64-1"))),
    }
}

pub(crate) fn boolean(json: &Json<'_>, at: At<'_>) -> Result<bool, Invalid> {
    match json {
        Json::Bool(value) => Ok(*value),
        other => Err(at.refuse(format!("{other} is neither true nor false"))),
    }
}

pub(crate) fn text<'t>(json: &'t Json<'_>, at: At<'_>) -> Result<&'t str, Invalid> {
    match json {
        Json::Text(text) => Ok(text),
        other => Err(at.refuse(format!("{other} is not a string"))),
    }
}

/// A list whose items are read by `read`.
pub(crate) fn list<'j, T>(
    json: &Json<'j>,
    at: At<'_>,
    mut read: impl FnMut(&Json<'j>, At<'_>) -> Result<T, Invalid>,
) -> Result<Vec<T>, Invalid> {
    let Json::List(items) = json else {
        return Err(at.refuse(format!("{json} is not a list")));
    };
    items
        .iter()
        .enumerate()
        .map(|(index, item)| read(item, at.index(index)))
        .collect()
}

pub(crate) fn numbers(json: &Json<'_>, at: At<'_>) -> Result<Vec<u64>, Invalid> {
    list(json, at, number)
}

/// A `[start, end]` pair, as it stands: the rules on it are checked later.
pub(crate) fn range(json: &Json<'_>, at: At<'_>) -> Result<Range<u64>, Invalid> {
    match json {
        Json::List(pair) if pair.len() == 2 => {
            Ok(number(&pair[0], at.index(0))?..number(&pair[1], at.index(1))?)
        }
        Json::List(items) => Err(at.refuse(format!(
            "a range is a pair [start, end], this list has {} items",
            items.len()
        ))),
        other => Err(at.refuse(format!("{other} is not a range [start, end]"))),
    }
}

/// A range list with touching neighbours merged.
pub(crate) fn range_list(json: &Json<'_>, at: At<'_>) -> Result<Vec<Range<u64>>, Invalid> {
    Ok(ranges::merge_touching(list(json, at, range)?))
}
