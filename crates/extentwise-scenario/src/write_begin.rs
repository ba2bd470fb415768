//! Scenarios of kind `write_begin`.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

use crate::Invalid;
use crate::fields::{At, Fields, boolean, list, number, numbers, text};
use crate::json::Json;
use crate::ranges;
use crate::scenario::{check_block_size, check_blocks_max, check_folio};

/// One buffered write `[from, to)` inside one folio is prepared and, where
/// `copied` is there, committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteBeginScenario {
    /// What the scenario shows.
    pub name: String,
    /// Bytes in a block; a power of two from 512 to 64 KiB.
    pub block_size: u64,
    /// Where the folio starts in the file; a multiple of its size.
    pub pos: u64,
    /// Bytes in the folio; a power of two, at least one block.
    pub size: u64,
    /// Folio-level uptodate; outranks the flags of the blocks (V2).
    pub uptodate: bool,
    /// Where the write starts, as an offset in the folio.
    pub from: u64,
    /// Where the write ends, as an offset in the folio.
    pub to: u64,
    /// The flags of every block, one entry a block.
    pub buffers: Vec<BufferFlags>,
    /// What mapping answers for single blocks.
    pub map: Vec<BlockMapping>,
    /// What mapping answers for all other blocks.
    pub default_map: MapAnswer,
    /// The blocks whose read fails.
    pub fail_read: Vec<u64>,
    /// How many bytes were copied; `None` leaves the write open.
    pub copied: Option<u64>,
}

/// What mapping answers for one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BlockMapping {
    /// The block, as an index in the folio.
    pub block: u64,
    /// The answer.
    pub result: MapAnswer,
}

/// What mapping a block answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MapAnswer {
    /// MAPPED: the device holds the block.
    #[default]
    Mapped,
    /// MAPPED and NEW: the block was just allocated.
    New,
    /// MAPPED, NEW and DELAY: the block is reserved only.
    Delay,
    /// MAPPED, NEW and UNWRITTEN: the block is allocated, but holds no data.
    Unwritten,
    /// Mapping failed.
    Error,
}

/// A flag of one block of the folio; in the order of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferFlag {
    /// The block is reserved, not yet allocated.
    Delay,
    /// The block is to be written.
    Dirty,
    /// The block's place is known.
    Mapped,
    /// The block was allocated by a write that has not ended.
    New,
    /// The block is allocated, but the device holds no data for it.
    Unwritten,
    /// The cache holds the block's newest content.
    Uptodate,
}

/// A set of [`BufferFlag`]s; serializes as the ascending list of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferFlags(u8);

impl WriteBeginScenario {
    pub(crate) fn read(json: &Json<'_>) -> Result<Self, Invalid> {
        const KNOWN: &[&str] = &[
            "kind",
            "name",
            "block_size",
            "folio",
            "from",
            "to",
            "buffers",
            "map",
            "default_map",
            "fail_read",
            "copied",
        ];
        let fields = Fields::new(json, At::Root, KNOWN)?;
        let at_folio = At::Root.key("folio");
        let folio = Fields::new(
            fields.require("folio")?,
            at_folio,
            &["pos", "size", "uptodate"],
        )?;
        let mut scenario = Self {
            name: text(fields.require("name")?, At::Root.key("name"))?.to_owned(),
            block_size: fields.required("block_size", number)?,
            pos: folio.required("pos", number)?,
            size: folio.required("size", number)?,
            uptodate: folio.required("uptodate", boolean)?,
            from: fields.required("from", number)?,
            to: fields.required("to", number)?,
            buffers: Vec::new(),
            map: fields
                .optional("map", |json, at| list(json, at, BlockMapping::read))?
                .unwrap_or_default(),
            default_map: fields
                .optional("default_map", MapAnswer::read)?
                .unwrap_or_default(),
            fail_read: fields.optional("fail_read", numbers)?.unwrap_or_default(),
            copied: fields.optional("copied", number)?,
        };
        // The number of default buffers is bounded before they are allocated.
        let blocks = scenario.check_geometry()?;
        scenario.buffers =
            match fields.optional("buffers", |json, at| list(json, at, BufferFlags::read))? {
                Some(buffers) => buffers,
                None => vec![BufferFlags::default(); blocks],
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
        let blocks = self.check_geometry()?;
        self.check_write()?;
        self.check_buffers(blocks)?;
        self.check_map()?;
        let at = At::Root.key("fail_read");
        for (index, &block) in self.fail_read.iter().enumerate() {
            self.check_block(block, &at.index(index))?;
        }
        ranges::check_no_duplicates(&self.fail_read, &at)
    }

    /// Answers the number of blocks.
    fn check_geometry(&self) -> Result<usize, Invalid> {
        check_block_size(self.block_size)?;
        let at = At::Root.key("folio");
        check_folio(self.pos, self.size, self.block_size, &at)?;
        let blocks = self.size / self.block_size;
        check_blocks_max(blocks, &at.key("size"))?;
        usize::try_from(blocks).map_err(|_| at.refuse("too large for this machine"))
    }

    fn check_write(&self) -> Result<(), Invalid> {
        if self.to > self.size {
            return Err(At::Root.key("to").refuse(format!(
                "{} is behind the end of the folio of {} bytes",
                self.to, self.size
            )));
        }
        if self.from >= self.to {
            return Err(At::Root
                .key("from")
                .refuse(format!("{} is not below to, {}", self.from, self.to)));
        }
        match self.copied {
            Some(copied) if copied > self.to - self.from => {
                Err(At::Root.key("copied").refuse(format!(
                    "{copied} is more than the {} bytes of the write",
                    self.to - self.from
                )))
            }
            _ => Ok(()),
        }
    }

    fn check_buffers(&self, blocks: usize) -> Result<(), Invalid> {
        let at = At::Root.key("buffers");
        if self.buffers.len() != blocks {
            return Err(at.refuse(format!(
                "{} entries; the folio has {blocks} blocks, and each needs one",
                self.buffers.len()
            )));
        }
        for (index, flags) in self.buffers.iter().enumerate() {
            for flag in [BufferFlag::New, BufferFlag::Delay, BufferFlag::Unwritten] {
                if flags.contains(flag) && !flags.contains(BufferFlag::Mapped) {
                    return Err(at
                        .index(index)
                        .refuse(format!("{:?} without \"mapped\"", flag.name())));
                }
            }
            let uptodate = self.uptodate || flags.contains(BufferFlag::Uptodate);
            if flags.contains(BufferFlag::Dirty) && !uptodate {
                return Err(at.index(index).refuse(
                    "\"dirty\" without \"uptodate\", and the folio is not uptodate either",
                ));
            }
        }
        Ok(())
    }

    fn check_map(&self) -> Result<(), Invalid> {
        let at = At::Root.key("map");
        for (index, mapping) in self.map.iter().enumerate() {
            self.check_block(mapping.block, &at.index(index).key("block"))?;
        }
        let blocks: Vec<u64> = self.map.iter().map(|mapping| mapping.block).collect();
        ranges::check_no_duplicates(&blocks, &at)
    }

    fn check_block(&self, block: u64, at: &At<'_>) -> Result<(), Invalid> {
        let blocks = self.size / self.block_size;
        if block < blocks {
            return Ok(());
        }
        Err(at.refuse(format!("{block} is not one of the folio's {blocks} blocks")))
    }
}

impl BlockMapping {
    fn read(json: &Json<'_>, at: At<'_>) -> Result<Self, Invalid> {
        let fields = Fields::new(json, at, &["block", "result"])?;
        Ok(Self {
            block: fields.required("block", number)?,
            result: fields.required("result", MapAnswer::read)?,
        })
    }
}

impl MapAnswer {
    /// Every answer.
    pub const ALL: [Self; 5] = [
        MapAnswer::Mapped,
        MapAnswer::New,
        MapAnswer::Delay,
        MapAnswer::Unwritten,
        MapAnswer::Error,
    ];

    /// Its name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MapAnswer::Mapped => "mapped",
            MapAnswer::New => "new",
            MapAnswer::Delay => "delay",
            MapAnswer::Unwritten => "unwritten",
            MapAnswer::Error => "error",
        }
    }

    fn read(json: &Json<'_>, at: At<'_>) -> Result<Self, Invalid> {
        let name = text(json, at)?;
        Self::ALL
            .into_iter()
            .find(|answer| answer.name() == name)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::name).join(", ");
                at.refuse(format!("{json} is unknown; answers are {known}"))
            })
    }
}

impl BufferFlag {
    /// Every flag, in the order of their names.
    pub const ALL: [Self; 6] = [
        BufferFlag::Delay,
        BufferFlag::Dirty,
        BufferFlag::Mapped,
        BufferFlag::New,
        BufferFlag::Unwritten,
        BufferFlag::Uptodate,
    ];

    /// Its name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BufferFlag::Delay => "delay",
            BufferFlag::Dirty => "dirty",
            BufferFlag::Mapped => "mapped",
            BufferFlag::New => "new",
            BufferFlag::Unwritten => "unwritten",
            BufferFlag::Uptodate => "uptodate",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }

    fn read(json: &Json<'_>, at: At<'_>) -> Result<Self, Invalid> {
        let name = text(json, at)?;
        Self::ALL
            .into_iter()
            .find(|flag| flag.name() == name)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::name).join(", ");
                at.refuse(format!("{json} is unknown; flags are {known}"))
            })
    }
}

impl BufferFlags {
    /// Whether `flag` is in the set.
    #[must_use]
    pub fn contains(self, flag: BufferFlag) -> bool {
        self.0 & flag.bit() != 0
    }

    /// Puts `flag` into the set.
    pub fn insert(&mut self, flag: BufferFlag) {
        self.0 |= flag.bit();
    }

    /// Takes `flag` out of the set.
    pub fn remove(&mut self, flag: BufferFlag) {
        self.0 &= !flag.bit();
    }

    /// The flags of the set, in the order of their names.
    pub fn iter(self) -> impl Iterator<Item = BufferFlag> {
        BufferFlag::ALL
            .into_iter()
            .filter(move |&flag| self.contains(flag))
    }

    fn read(json: &Json<'_>, at: At<'_>) -> Result<Self, Invalid> {
        let mut flags = Self::default();
        for flag in list(json, at, BufferFlag::read)? {
            if flags.contains(flag) {
                return Err(at.refuse(format!("{:?} stands twice", flag.name())));
            }
            flags.insert(flag);
        }
        Ok(flags)
    }
}

impl FromIterator<BufferFlag> for BufferFlags {
    fn from_iter<I: IntoIterator<Item = BufferFlag>>(flags: I) -> Self {
        let mut set = Self::default();
        for flag in flags {
            set.insert(flag);
        }
        set
    }
}

impl Serialize for BufferFlags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names = serializer.serialize_seq(None)?;
        for flag in self.iter() {
            names.serialize_element(flag.name())?;
        }
        names.end()
    }
}

/// The input form; keys that have their default value are left out.
impl Serialize for WriteBeginScenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", "write_begin")?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("block_size", &self.block_size)?;
        map.serialize_entry("folio", &FolioForm::of(self))?;
        map.serialize_entry("from", &self.from)?;
        map.serialize_entry("to", &self.to)?;
        if self
            .buffers
            .iter()
            .any(|&flags| flags != BufferFlags::default())
        {
            map.serialize_entry("buffers", &self.buffers)?;
        }
        if !self.map.is_empty() {
            map.serialize_entry("map", &self.map)?;
        }
        if self.default_map != MapAnswer::default() {
            map.serialize_entry("default_map", &self.default_map)?;
        }
        if !self.fail_read.is_empty() {
            map.serialize_entry("fail_read", &self.fail_read)?;
        }
        if let Some(copied) = self.copied {
            map.serialize_entry("copied", &copied)?;
        }
        map.end()
    }
}

/// The folio as its object in JSON.
#[derive(Serialize)]
struct FolioForm {
    pos: u64,
    size: u64,
    uptodate: bool,
}

impl FolioForm {
    fn of(scenario: &WriteBeginScenario) -> Self {
        Self {
            pos: scenario.pos,
            size: scenario.size,
            uptodate: scenario.uptodate,
        }
    }
}
