//! A JSON value as it was written: keys in order, duplicates kept, numbers
//! that are not u64 kept apart.
//!
//! `serde_json::Value` forgets duplicate keys, and derived types cannot say at
//! which path a value was wrong; both matter in an error message here. Text
//! is borrowed from the input where it has no escapes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

#[derive(Clone, Debug)]
pub(crate) enum Json<'j> {
    Null,
    Bool(bool),
    Number(u64),
    /// Negative, fractional, or above 2^64-1; as it prints.
    OtherNumber(String),
    Text(Cow<'j, str>),
    List(Vec<Json<'j>>),
    Object(Vec<(Cow<'j, str>, Json<'j>)>),
}

/// The value as an error message quotes it: scalars in full (long text is cut
/// short), lists and objects by their kind.
impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TEXT_CHARS_MAX: usize = 40;
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Number(value) => write!(f, "{value}"),
            Json::OtherNumber(value) => f.write_str(value),
            Json::Text(text) if text.chars().count() > TEXT_CHARS_MAX => {
                let start: String = text.chars().take(TEXT_CHARS_MAX).collect();
                write!(f, "{start:?}...")
            }
            Json::Text(text) => write!(f, "{text:?}"),
            Json::List(_) => f.write_str("a list"),
            Json::Object(_) => f.write_str("an object"),
        }
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(
            u64::try_from(value)
                .map_or_else(|_| Json::OtherNumber(value.to_string()), Json::Number),
        )
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Json::OtherNumber(format!("{value:?}")))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json<'de>, A::Error> {
        let mut object = Vec::new();
        while let Some((Key(key), value)) = entries.next_entry()? {
            object.push((key, value));
        }
        Ok(Json::Object(object))
    }
}

/// A key of an object, borrowed where possible (plain `Cow` never borrows).
struct Key<'j>(Cow<'j, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(value)))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(value.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}
