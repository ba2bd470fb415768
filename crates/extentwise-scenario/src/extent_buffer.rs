//! Scenarios of kind `extent_buffer`.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::Invalid;
use crate::fields::{At, Fields, list, number, text};
use crate::json::Json;

/// Operations on one metadata block, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentBufferScenario {
    /// What the scenario shows.
    pub name: String,
    /// Bytes in the block; a power of two from 4 to 64 KiB.
    pub node_size: u64,
    /// Bytes in a page: 4, 16 or 64 KiB. A larger page holds several blocks.
    pub page_size: u64,
    /// The logical address of the block; a multiple of its size.
    pub start: u64,
    /// How the bytes lie in memory.
    pub backing: Backing,
    /// What is done.
    pub ops: Vec<BufferOp>,
}

/// How the bytes of a block lie in memory (B1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// In one allocation.
    Contiguous,
    /// In separate pages that are mapped side by side.
    Mapped,
    /// In separate pages.
    Scattered,
}

/// One operation on a block (B6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferOp {
    /// Reads bytes.
    Read {
        /// The first byte.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Writes bytes.
    Write {
        /// The first byte.
        offset: u64,
        /// What is written.
        bytes: Vec<u8>,
    },
    /// Compares as memcmp does.
    Compare {
        /// The first byte.
        offset: u64,
        /// What is compared with.
        bytes: Vec<u8>,
    },
    /// Sets bytes to one value.
    Fill {
        /// The first byte.
        offset: u64,
        /// How many.
        len: u64,
        /// The value.
        byte: u8,
    },
    /// Copies inside the block, as memmove does.
    Copy(Move),
    /// The same, by its other name.
    Move(Move),
    /// Reads a little-endian integer.
    Get {
        /// Its first byte.
        offset: u64,
        /// Its bytes.
        width: Width,
    },
    /// Writes a little-endian integer.
    Set {
        /// Its first byte.
        offset: u64,
        /// Its bytes.
        width: Width,
        /// The integer, not wider than that.
        value: u64,
    },
    /// Reads a bit.
    TestBit {
        /// The byte that bits are counted from.
        offset: u64,
        /// The bit; may pass 7.
        bit: u64,
    },
    /// Sets bits.
    SetBits(Bits),
    /// Clears bits.
    ClearBits(Bits),
    /// Sums the block up.
    Csum(CsumAlgorithm),
}

/// The places of a copy inside a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The first byte written.
    pub dst: u64,
    /// The first byte read.
    pub src: u64,
    /// How many.
    pub len: u64,
}

/// A range of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// The byte that bits are counted from.
    pub offset: u64,
    /// The first bit; may pass 7.
    pub bit: u64,
    /// How many.
    pub len: u64,
}

/// Bytes of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 1.
    One,
    /// 2.
    Two,
    /// 4.
    Four,
    /// 8.
    Eight,
}

/// A checksum over a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsumAlgorithm {
    /// CRC-32C.
    Crc32c,
    /// xxHash of 64 bits, seed 0.
    Xxhash64,
    /// SHA-256.
    Sha256,
    /// `BLAKE2b` of 256 bits.
    Blake2b,
}

impl ExtentBufferScenario {
    pub(crate) fn read(json: &Json<'_>) -> Result<Self, Invalid> {
        const KNOWN: &[&str] = &[
            "kind",
            "name",
            "node_size",
            "page_size",
            "start",
            "backing",
            "ops",
        ];
        let fields = Fields::new(json, At::Root, KNOWN)?;
        let scenario = Self {
            name: text(fields.require("name")?, At::Root.key("name"))?.to_owned(),
            node_size: fields.required("node_size", number)?,
            page_size: fields.required("page_size", number)?,
            start: fields.required("start", number)?,
            backing: fields.required("backing", |json, at| {
                choice(json, at, "backings", &Backing::ALL, Backing::name)
            })?,
            ops: fields.required("ops", |json, at| list(json, at, BufferOp::read))?,
        };
        scenario.check()?;
        Ok(scenario)
    }

    /// Checks every rule of the format; parsed and generated scenarios pass.
    pub fn check(&self) -> Result<(), Invalid> {
        self.check_rules()
            .map_err(|invalid| invalid.of_scenario(&self.name))
    }

    fn check_rules(&self) -> Result<(), Invalid> {
        const NODE_MIN: u64 = 4096;
        const NODE_MAX: u64 = 65536;
        let node = self.node_size;
        if !node.is_power_of_two() || !(NODE_MIN..=NODE_MAX).contains(&node) {
            return Err(At::Root.key("node_size").refuse(format!(
                "{node} is not a power of two from {NODE_MIN} to {NODE_MAX}"
            )));
        }
        if ![4096, 16384, 65536].contains(&self.page_size) {
            return Err(At::Root.key("page_size").refuse(format!(
                "{} is none of 4096, 16384 and 65536",
                self.page_size
            )));
        }
        if !self.start.is_multiple_of(node) {
            return Err(At::Root.key("start").refuse(format!(
                "{} is not a multiple of the node size {node}",
                self.start
            )));
        }
        let at = At::Root.key("ops");
        for (index, op) in self.ops.iter().enumerate() {
            if let BufferOp::Set { width, value, .. } = *op
                && value > width.max_value()
            {
                return Err(at
                    .index(index)
                    .key("value")
                    .refuse(format!("{value} is wider than {} bytes", width.bytes())));
            }
        }
        Ok(())
    }
}

impl BufferOp {
    fn read(json: &Json<'_>, at: At<'_>) -> Result<Self, Invalid> {
        let Json::Object(entries) = json else {
            return Err(at.refuse(format!("{json} is not an object")));
        };
        let at_op = at.key("op");
        let op = entries
            .iter()
            .find_map(|(key, value)| (key == "op").then_some(value))
            .ok_or_else(|| at_op.refuse("missing, but required"))?;
        let fields = |known| Fields::new(json, at, known);
        Ok(match text(op, at_op)? {
            "read" => {
                let fields = fields(&["op", "offset", "len"])?;
                Self::Read {
                    offset: fields.required("offset", number)?,
                    len: fields.required("len", number)?,
                }
            }
            "write" => {
                let fields = fields(&["op", "offset", "hex"])?;
                Self::Write {
                    offset: fields.required("offset", number)?,
                    bytes: fields.required("hex", hex)?,
                }
            }
            "compare" => {
                let fields = fields(&["op", "offset", "hex"])?;
                Self::Compare {
                    offset: fields.required("offset", number)?,
                    bytes: fields.required("hex", hex)?,
                }
            }
            "fill" => {
                let fields = fields(&["op", "offset", "len", "byte"])?;
                Self::Fill {
                    offset: fields.required("offset", number)?,
                    len: fields.required("len", number)?,
                    byte: fields.required("byte", byte)?,
                }
            }
            "copy" => Self::Copy(Move::read(&fields(&["op", "dst", "src", "len"])?)?),
            "move" => Self::Move(Move::read(&fields(&["op", "dst", "src", "len"])?)?),
            "get" => {
                let fields = fields(&["op", "offset", "width"])?;
                Self::Get {
                    offset: fields.required("offset", number)?,
                    width: fields.required("width", Width::read)?,
                }
            }
            "set" => {
                let fields = fields(&["op", "offset", "width", "value"])?;
                Self::Set {
                    offset: fields.required("offset", number)?,
                    width: fields.required("width", Width::read)?,
                    value: fields.required("value", decimal)?,
                }
            }
            "test_bit" => {
                let fields = fields(&["op", "offset", "bit"])?;
                Self::TestBit {
                    offset: fields.required("offset", number)?,
                    bit: fields.required("bit", number)?,
                }
            }
            "set_bits" => Self::SetBits(Bits::read(&fields(&["op", "offset", "bit", "len"])?)?),
            "clear_bits" => Self::ClearBits(Bits::read(&fields(&["op", "offset", "bit", "len"])?)?),
            "csum" => Self::Csum(fields(&["op", "algorithm"])?.required(
                "algorithm",
                |json, at| {
                    choice(
                        json,
                        at,
                        "algorithms",
                        &CsumAlgorithm::ALL,
                        CsumAlgorithm::name,
                    )
                },
            )?),
            _ => {
                return Err(at_op.refuse(format!(
                    "{op} is unknown; known are read, write, compare, fill, copy, move, get, set, \
                     test_bit, set_bits, clear_bits and csum"
                )));
            }
        })
    }

    /// Its name in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Compare { .. } => "compare",
            Self::Fill { .. } => "fill",
            Self::Copy(_) => "copy",
            Self::Move(_) => "move",
            Self::Get { .. } => "get",
            Self::Set { .. } => "set",
            Self::TestBit { .. } => "test_bit",
            Self::SetBits(_) => "set_bits",
            Self::ClearBits(_) => "clear_bits",
            Self::Csum(_) => "csum",
        }
    }
}

impl Move {
    fn read(fields: &Fields<'_, '_>) -> Result<Self, Invalid> {
        Ok(Self {
            dst: fields.required("dst", number)?,
            src: fields.required("src", number)?,
            len: fields.required("len", number)?,
        })
    }
}

impl Bits {
    fn read(fields: &Fields<'_, '_>) -> Result<Self, Invalid> {
        Ok(Self {
            offset: fields.required("offset", number)?,
            bit: fields.required("bit", number)?,
            len: fields.required("len", number)?,
        })
    }
}

impl Backing {
    /// Every backing, in the order of choice.
    pub const ALL: [Self; 3] = [Self::Contiguous, Self::Mapped, Self::Scattered];

    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contiguous => "contiguous",
            Self::Mapped => "mapped",
            Self::Scattered => "scattered",
        }
    }
}

impl Width {
    /// Every width.
    pub const ALL: [Self; 4] = [Self::One, Self::Two, Self::Four, Self::Eight];

    /// So many bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// The largest integer of this width.
    #[must_use]
    pub const fn max_value(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }

    fn read(json: &Json<'_>, at: At<'_>) -> Result<Self, Invalid> {
        let bytes = number(json, at)?;
        Self::ALL
            .into_iter()
            .find(|width| width.bytes() == bytes)
            .ok_or_else(|| at.refuse(format!("{bytes} is none of 1, 2, 4 and 8")))
    }
}

impl CsumAlgorithm {
    /// Every algorithm.
    pub const ALL: [Self; 4] = [Self::Crc32c, Self::Xxhash64, Self::Sha256, Self::Blake2b];

    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Xxhash64 => "xxhash64",
            Self::Sha256 => "sha256",
            Self::Blake2b => "blake2b",
        }
    }
}

/// One of a few things that have names.
fn choice<T: Copy>(
    json: &Json<'_>,
    at: At<'_>,
    what: &str,
    all: &[T],
    name_of: fn(T) -> &'static str,
) -> Result<T, Invalid> {
    let name = text(json, at)?;
    let found = all.iter().copied().find(|item| name_of(*item) == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|item| name_of(*item)).collect();
        at.refuse(format!(
            "{json} is unknown; {what} are {}",
            known.join(", ")
        ))
    })
}

fn byte(json: &Json<'_>, at: At<'_>) -> Result<u8, Invalid> {
    let value = number(json, at)?;
    u8::try_from(value).map_err(|_| at.refuse(format!("{value} is above 255")))
}

/// A number as a string of decimal digits, which any reader of JSON keeps whole.
fn decimal(json: &Json<'_>, at: At<'_>) -> Result<u64, Invalid> {
    let digits = text(json, at)?;
    let number = digits.bytes().all(|digit| digit.is_ascii_digit());
    match digits.parse() {
        Ok(value) if number => Ok(value),
        _ => Err(at.refuse(format!("{json} is not a decimal number from 0 to 2^64-1"))),
    }
}

fn hex(json: &Json<'_>, at: At<'_>) -> Result<Vec<u8>, Invalid> {
    let digits = text(json, at)?.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return Err(at.refuse(format!(
            "{} hex digits; a byte takes two of them",
            digits.len()
        )));
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    let bytes = digits
        .chunks_exact(2)
        .map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?));
    bytes
        .collect::<Option<Vec<u8>>>()
        .ok_or_else(|| at.refuse(format!("{json} has other characters than hex digits")))
}

/// Bytes as lower-case hex digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// The input form.
impl Serialize for ExtentBufferScenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", "extent_buffer")?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("node_size", &self.node_size)?;
        map.serialize_entry("page_size", &self.page_size)?;
        map.serialize_entry("start", &self.start)?;
        map.serialize_entry("backing", self.backing.name())?;
        map.serialize_entry("ops", &self.ops)?;
        map.end()
    }
}

impl Serialize for BufferOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("op", self.name())?;
        match self {
            Self::Read { offset, len } => {
                map.serialize_entry("offset", offset)?;
                map.serialize_entry("len", len)?;
            }
            Self::Write { offset, bytes } | Self::Compare { offset, bytes } => {
                map.serialize_entry("offset", offset)?;
                map.serialize_entry("hex", &to_hex(bytes))?;
            }
            Self::Fill { offset, len, byte } => {
                map.serialize_entry("offset", offset)?;
                map.serialize_entry("len", len)?;
                map.serialize_entry("byte", byte)?;
            }
            Self::Copy(Move { dst, src, len }) | Self::Move(Move { dst, src, len }) => {
                map.serialize_entry("dst", dst)?;
                map.serialize_entry("src", src)?;
                map.serialize_entry("len", len)?;
            }
            Self::Get { offset, width } => {
                map.serialize_entry("offset", offset)?;
                map.serialize_entry("width", &width.bytes())?;
            }
            Self::Set {
                offset,
                width,
                value,
            } => {
                map.serialize_entry("offset", offset)?;
                map.serialize_entry("width", &width.bytes())?;
                map.serialize_entry("value", &value.to_string())?;
            }
            Self::TestBit { offset, bit } => {
                map.serialize_entry("offset", offset)?;
                map.serialize_entry("bit", bit)?;
            }
            Self::SetBits(Bits { offset, bit, len })
            | Self::ClearBits(Bits { offset, bit, len }) => {
                map.serialize_entry("offset", offset)?;
                map.serialize_entry("bit", bit)?;
                map.serialize_entry("len", len)?;
            }
            Self::Csum(algorithm) => map.serialize_entry("algorithm", algorithm.name())?,
        }
        map.end()
    }
}
