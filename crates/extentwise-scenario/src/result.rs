//! What comes out of a scenario; serializes with the keys of the format, in
//! its order.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::{BufferFlags, Invalid, MapAnswer, Scenario};

/// The result of a scenario of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ScenarioResult {
    /// Of a writeback scenario.
    Writeback(WritebackResult),
    /// Of a `write_begin` scenario.
    WriteBegin(WriteBeginResult),
    /// Of an `extent_buffer` scenario.
    ExtentBuffer(ExtentBufferResult),
}

impl ScenarioResult {
    /// Decides `scenario` with one function a kind, those of
    /// [`oracle`](crate::oracle) or of [`run`](crate::run).
    pub fn of(
        scenario: &Scenario,
        writeback: impl FnOnce(&crate::WritebackScenario) -> WritebackResult,
        write_begin: impl FnOnce(&crate::WriteBeginScenario) -> WriteBeginResult,
        extent_buffer: impl FnOnce(&crate::ExtentBufferScenario) -> ExtentBufferResult,
    ) -> Self {
        match scenario {
            Scenario::Writeback(scenario) => ScenarioResult::Writeback(writeback(scenario)),
            Scenario::WriteBegin(scenario) => ScenarioResult::WriteBegin(write_begin(scenario)),
            Scenario::ExtentBuffer(scenario) => {
                ScenarioResult::ExtentBuffer(extent_buffer(scenario))
            }
        }
    }
}

/// The result of a writeback scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WritebackResult {
    /// The scenario's name.
    pub name: String,
    /// What happened to each piece, in order.
    pub events: Vec<Event>,
    /// The bios, in the order sent.
    pub bios: Vec<BioResult>,
    /// The ordered extents, in file order.
    pub ordered: Vec<OrderedResult>,
    /// The folios, in order.
    pub folios: Vec<FolioResult>,
    /// The first submission error.
    pub error: Option<WritebackError>,
    /// Whether any bio failed, or any submission.
    pub mapping_error: bool,
    /// What was finished more than once: `[file_offset, len]`, ascending.
    pub double_finish: Vec<[u64; 2]>,
}

/// What happened to one piece of a folio (W4-W8, S4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Bytes past the file size were zeroed before their block is queued.
    Zero {
        /// The file size.
        file_offset: u64,
        /// Bytes from there to the end of the block.
        len: u64,
    },
    /// The piece was queued.
    Submit {
        /// Where it starts in the file.
        file_offset: u64,
        /// Its bytes.
        len: u64,
        /// Where it goes on the device.
        disk_bytenr: u64,
    },
    /// The run is past the file size: no I/O.
    BeyondEof {
        /// Where it starts in the file.
        file_offset: u64,
        /// Its bytes.
        len: u64,
    },
    /// No ordered extent covers the gap.
    MissingOrdered {
        /// Where it starts in the file.
        file_offset: u64,
        /// Its bytes.
        len: u64,
    },
    /// The device refused the piece.
    Refused {
        /// Where it starts in the file.
        file_offset: u64,
        /// Its bytes.
        len: u64,
    },
}

/// A bio as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BioResult {
    /// Where it starts on the device.
    pub disk_bytenr: u64,
    /// Its bytes.
    pub len: u64,
    /// Its bytes below the file size (S4).
    pub valid_len: u64,
    /// `[file_offset, len]` of each segment (S2).
    pub segments: Vec<[u64; 2]>,
}

/// An ordered extent after the scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OrderedResult {
    /// Where it starts in the file.
    pub file_offset: u64,
    /// Its bytes in the file.
    pub num_bytes: u64,
    /// Its bytes that are not finished.
    pub bytes_left: u64,
    /// How much of it counts when it is done.
    pub truncated_len: u64,
    /// Its flags, in the order of their names.
    pub flags: Vec<OrderedFlag>,
    /// What its completion does; `None` until it is done.
    pub outcome: Option<Outcome>,
}

/// A flag of an ordered extent; in the order of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderedFlag {
    /// All of it is finished.
    IoDone,
    /// Some of it was finished with an error.
    IoError,
    /// Its data goes in place.
    Nocow,
    /// It is part of a preallocated extent.
    Prealloc,
    /// A part of it is past the file size.
    Truncated,
}

/// What completing an ordered extent does (O5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// `[file_offset, len, disk_bytenr]` of a new extent.
    pub insert: Option<[u64; 3]>,
    /// `[file_offset, len, disk_bytenr]` that becomes written.
    pub convert: Option<[u64; 3]>,
    /// `[disk_bytenr, len]` that is given back.
    pub release: Option<[u64; 2]>,
}

/// The state of a folio after the pass and the completions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FolioResult {
    /// Where it starts in the file.
    pub pos: u64,
    /// `[start, end]` of what is still dirty.
    pub dirty: Vec<[u64; 2]>,
    /// `[start, end]` of what is in writeback.
    pub writeback: Vec<[u64; 2]>,
}

/// A submission error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WritebackError {
    /// What failed.
    pub kind: WritebackErrorKind,
    /// Where the piece starts in the file.
    pub file_offset: u64,
}

/// What kind of submission error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WritebackErrorKind {
    /// No ordered extent covers the gap (W7).
    MissingOrdered,
    /// The device refused the piece (W8).
    Refused,
}

/// The result of a `write_begin` scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WriteBeginResult {
    /// The scenario's name.
    pub name: String,
    /// What was done, in order.
    pub actions: Vec<Action>,
    /// What stopped the write.
    pub error: Option<WriteBeginError>,
    /// How much was committed; `None` after an error or without a commit.
    pub committed: Option<u64>,
    /// The flags of every block; all uptodate in an uptodate folio (V2).
    pub buffers: Vec<BufferFlags>,
    /// Folio-level uptodate.
    pub folio_uptodate: bool,
}

/// One action on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// The block was mapped.
    Map {
        /// Its index in the folio.
        block: u64,
        /// What mapping answered.
        result: MapAnswer,
    },
    /// Bytes were zeroed.
    Zero {
        /// `[start, end]` in the folio.
        range: [u64; 2],
    },
    /// The block was read.
    Read {
        /// Its index in the folio.
        block: u64,
    },
}

/// What stopped a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WriteBeginError {
    /// What failed.
    pub kind: WriteBeginErrorKind,
    /// The block, as an index in the folio.
    pub block: u64,
}

/// What kind of error stopped a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteBeginErrorKind {
    /// Mapping the block failed.
    Map,
    /// Reading the block failed.
    Read,
}

/// The result of an `extent_buffer` scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExtentBufferResult {
    /// The scenario's name.
    pub name: String,
    /// What each operation answered, in order.
    pub results: Vec<BufferValue>,
    /// SHA-256 of all bytes of the block at the end, in hex digits.
    pub sha256: String,
    /// Whether the bytes beside the block in its page are what they were.
    pub neighbours_intact: bool,
}

/// What an operation on a block answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferValue {
    /// It was done, and has no value.
    Nothing,
    /// Hex digits, or an integer in decimal digits.
    Text(String),
    /// A bit.
    Bit(u8),
    /// -1, 0 or 1.
    Order(i8),
    /// It leaves the block, and was refused (B2).
    OutOfRange,
}

impl Serialize for BufferValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => serializer.serialize_none(),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Bit(bit) => serializer.serialize_u8(*bit),
            Self::Order(order) => serializer.serialize_i8(*order),
            Self::OutOfRange => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("error", "out_of_range")?;
                map.end()
            }
        }
    }
}

/// The result line of a scenario that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InvalidResult {
    /// The scenario's name, where it could be read.
    pub name: Option<String>,
    /// Which key, and why.
    #[serde(serialize_with = "as_text")]
    pub invalid: Invalid,
}

impl From<Invalid> for InvalidResult {
    fn from(invalid: Invalid) -> Self {
        Self {
            name: invalid.name.clone(),
            invalid,
        }
    }
}

fn as_text<S: Serializer>(invalid: &Invalid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(invalid)
}
