//! Scenarios of kind "writeback".

use std::ops::Range;

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use crate::Invalid;
use crate::fields::{At, Fields, boolean, list, number, numbers, range, range_list, text};
use crate::json::Json;
use crate::ranges::{self, pair, show};
use crate::scenario::{check_block_size, check_blocks_max, check_folio};

/// The byte limit of a bio where a scenario names none.
pub const MAX_BYTES_DEFAULT: u64 = 1 << 20;
/// The segment limit of a bio where a scenario names none.
pub const MAX_SEGMENTS_DEFAULT: u64 = 256;

/// Folios are written back in order, with one bio in progress across them.
///
/// All offsets are absolute file offsets in bytes, all ranges half-open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritebackScenario {
    /// What the scenario shows.
    pub name: String,
    /// Bytes in a block; a power of two from 512 to 64 KiB.
    pub block_size: u64,
    /// The file size, as every folio's pass samples it (W1).
    pub i_size: u64,
    /// The folios to pass, ascending and disjoint.
    pub folios: Vec<FolioPass>,
    /// The ordered extents, in any order, disjoint in the file.
    pub ordered: Vec<OrderedExtent>,
    /// The limits of a bio (S2).
    pub bio: BioLimits,
    /// Which queue attempts the device refuses, counted from 0 (W8).
    pub refuse: Vec<u64>,
    /// Disk ranges; a bio that touches one completes with an error.
    pub fail_io: Vec<Range<u64>>,
    /// Whether the bios complete, in order, after the last folio.
    pub complete: bool,
}

/// One folio, and what the pass over it is to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolioPass {
    /// Where the folio starts in the file; a multiple of its size.
    pub pos: u64,
    /// Bytes in the folio; a power of two, at least one block.
    pub size: u64,
    /// The submit bitmap: what this pass must write. Inside `dirty`.
    pub submit: Vec<Range<u64>>,
    /// The dirty blocks; those outside `submit` somebody else owns.
    pub dirty: Vec<Range<u64>>,
    /// The part of the folio that the pass covers; may be empty.
    pub range: Range<u64>,
}

/// A range of the file whose place on the device is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedExtent {
    /// Where it starts in the file.
    pub file_offset: u64,
    /// Its bytes in the file.
    pub num_bytes: u64,
    /// Where its extent starts on the device.
    pub disk_bytenr: u64,
    /// Where in the extent its data starts.
    pub offset: u64,
    /// Bytes of the extent on the device.
    pub disk_num_bytes: u64,
    /// What its completion does to the file's extents.
    pub kind: OrderedKind,
    /// What was finished before the pass; never all of it.
    pub finished: Vec<Range<u64>>,
}

/// What completing an ordered extent does to the file's extents (O5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderedKind {
    /// A new extent is inserted.
    #[default]
    Plain,
    /// Data goes in place; the extent it lies in stands.
    Nocow,
    /// A preallocated extent is converted to a written one.
    Prealloc,
}

/// The limits of one bio (S2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BioLimits {
    /// Bytes in a bio; a multiple of the block size.
    pub max_bytes: u64,
    /// Segments in a bio; at least 1.
    pub max_segments: u64,
}

impl WritebackScenario {
    pub(crate) fn read(json: &Json<'_>) -> Result<Self, Invalid> {
        const KNOWN: &[&str] = &[
            "kind",
            "name",
            "block_size",
            "i_size",
            "folios",
            "ordered",
            "bio",
            "refuse",
            "fail_io",
            "complete",
        ];
        let fields = Fields::new(json, At::Root, KNOWN)?;
        let scenario = Self {
            name: text(fields.require("name")?, At::Root.key("name"))?.to_owned(),
            block_size: fields.required("block_size", number)?,
            i_size: fields.required("i_size", number)?,
            folios: fields.required("folios", |json, at| list(json, at, FolioPass::read))?,
            ordered: fields.required("ordered", |json, at| list(json, at, OrderedExtent::read))?,
            bio: fields.optional("bio", BioLimits::read)?.unwrap_or_default(),
            refuse: fields.optional("refuse", numbers)?.unwrap_or_default(),
            fail_io: fields.optional("fail_io", range_list)?.unwrap_or_default(),
            complete: fields.optional("complete", boolean)?.unwrap_or(true),
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
        check_block_size(self.block_size)?;
        self.check_folios()?;
        self.check_ordered()?;
        self.bio.check(self.block_size)?;
        ranges::check_no_duplicates(&self.refuse, &At::Root.key("refuse"))?;
        ranges::check_list(&self.fail_io, &At::Root.key("fail_io"))
    }

    fn check_folios(&self) -> Result<(), Invalid> {
        let at = At::Root.key("folios");
        let mut last_end = 0;
        let mut blocks: u64 = 0;
        for (index, folio) in self.folios.iter().enumerate() {
            let at_folio = at.index(index);
            let span = check_folio(folio.pos, folio.size, self.block_size, &at_folio)?;
            if span.start < last_end {
                return Err(at_folio.key("pos").refuse(format!(
                    "{} is below {last_end}, where the folio before ends; folios are ascending and disjoint",
                    folio.pos
                )));
            }
            last_end = span.end;
            blocks = blocks.saturating_add(folio.size / self.block_size);
            check_blocks_max(blocks, &at)?;
            folio.check(self.block_size, &span, &at_folio)?;
        }
        Ok(())
    }

    fn check_ordered(&self) -> Result<(), Invalid> {
        let at = At::Root.key("ordered");
        let mut spans = Vec::with_capacity(self.ordered.len());
        for (index, extent) in self.ordered.iter().enumerate() {
            spans.push((extent.check(self.block_size, &at.index(index))?, index));
        }
        spans.sort_unstable_by_key(|(span, _)| span.start);
        for pair in spans.windows(2) {
            let [(first, first_index), (second, second_index)] = pair else {
                continue;
            };
            if second.start < first.end {
                // Blame the one that stands later in the input.
                let (blamed, other) = if first_index > second_index {
                    ((first, *first_index), (second, *second_index))
                } else {
                    ((second, *second_index), (first, *first_index))
                };
                return Err(at.index(blamed.1).refuse(format!(
                    "{} overlaps ordered[{}] {}",
                    show(blamed.0),
                    other.1,
                    show(other.0)
                )));
            }
        }
        Ok(())
    }
}

impl FolioPass {
    /// A folio whose dirty blocks are those to submit, covered as a whole.
    #[must_use]
    pub fn new(pos: u64, size: u64, submit: Vec<Range<u64>>) -> Self {
        Self {
            pos,
            size,
            dirty: submit.clone(),
            submit,
            range: pos..pos.saturating_add(size),
        }
    }

    fn read(json: &Json<'_>, at: At<'_>) -> Result<Self, Invalid> {
        let fields = Fields::new(json, at, &["pos", "size", "submit", "dirty", "range"])?;
        let mut folio = Self::new(
            fields.required("pos", number)?,
            fields.required("size", number)?,
            fields.required("submit", range_list)?,
        );
        if let Some(dirty) = fields.optional("dirty", range_list)? {
            folio.dirty = dirty;
        }
        if let Some(range) = fields.optional("range", range)? {
            folio.range = range;
        }
        Ok(folio)
    }

    fn check(&self, block_size: u64, span: &Range<u64>, at: &At<'_>) -> Result<(), Invalid> {
        for (key, list) in [("submit", &self.submit), ("dirty", &self.dirty)] {
            let at = at.key(key);
            ranges::check_list(list, &at)?;
            ranges::check_blocks(list, block_size, span, "folio", &at)?;
        }
        if let Some(range) = ranges::first_uncovered(&self.submit, &self.dirty) {
            return Err(at.key("submit").refuse(format!(
                "{} is not dirty; only dirty blocks are submitted",
                show(&range)
            )));
        }
        let at = at.key("range");
        if self.range.start > self.range.end {
            return Err(at.refuse(format!("{} runs backwards", show(&self.range))));
        }
        ranges::check_one(&self.range, block_size, span, "folio", &at)
    }
}

impl OrderedExtent {
    /// A plain extent that fills its place on the device.
    #[must_use]
    pub fn new(file_offset: u64, num_bytes: u64, disk_bytenr: u64) -> Self {
        Self {
            file_offset,
            num_bytes,
            disk_bytenr,
            offset: 0,
            disk_num_bytes: num_bytes,
            kind: OrderedKind::Plain,
            finished: Vec::new(),
        }
    }

    /// Where it ends in the file.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.file_offset.saturating_add(self.num_bytes)
    }

    fn read(json: &Json<'_>, at: At<'_>) -> Result<Self, Invalid> {
        const KNOWN: &[&str] = &[
            "file_offset",
            "num_bytes",
            "disk_bytenr",
            "offset",
            "disk_num_bytes",
            "flags",
            "finished",
        ];
        let fields = Fields::new(json, at, KNOWN)?;
        let num_bytes = fields.required("num_bytes", number)?;
        let offset = fields.optional("offset", number)?.unwrap_or(0);
        let disk_num_bytes = match fields.optional("disk_num_bytes", number)? {
            Some(disk_num_bytes) => disk_num_bytes,
            None => num_bytes.checked_add(offset).ok_or_else(|| {
                at.key("offset").refuse(format!(
                    "offset {offset} + num_bytes {num_bytes} is above 2^64-1"
                ))
            })?,
        };
        Ok(Self {
            file_offset: fields.required("file_offset", number)?,
            num_bytes,
            disk_bytenr: fields.required("disk_bytenr", number)?,
            offset,
            disk_num_bytes,
            kind: fields
                .optional("flags", OrderedKind::read)?
                .unwrap_or_default(),
            finished: fields.optional("finished", range_list)?.unwrap_or_default(),
        })
    }

    /// Checks the rules of one extent and answers the range it covers.
    fn check(&self, block_size: u64, at: &At<'_>) -> Result<Range<u64>, Invalid> {
        for (key, value) in [
            ("file_offset", self.file_offset),
            ("num_bytes", self.num_bytes),
            ("disk_bytenr", self.disk_bytenr),
            ("offset", self.offset),
            ("disk_num_bytes", self.disk_num_bytes),
        ] {
            if !value.is_multiple_of(block_size) {
                return Err(at.key(key).refuse(format!(
                    "{value} is not a multiple of the block size {block_size}"
                )));
            }
        }
        if self.num_bytes == 0 {
            return Err(at.key("num_bytes").refuse("0; an ordered extent has bytes"));
        }
        let Some(end) = self.file_offset.checked_add(self.num_bytes) else {
            return Err(at.key("num_bytes").refuse(format!(
                "file_offset {} + num_bytes {} is above 2^64-1",
                self.file_offset, self.num_bytes
            )));
        };
        let data_end = self.offset.checked_add(self.num_bytes);
        if data_end.is_none_or(|data_end| data_end > self.disk_num_bytes) {
            return Err(at.key("disk_num_bytes").refuse(format!(
                "{} is below offset {} + num_bytes {}",
                self.disk_num_bytes, self.offset, self.num_bytes
            )));
        }
        if self.disk_bytenr.checked_add(self.disk_num_bytes).is_none() {
            return Err(at.key("disk_bytenr").refuse(format!(
                "disk_bytenr {} + disk_num_bytes {} is above 2^64-1",
                self.disk_bytenr, self.disk_num_bytes
            )));
        }
        let span = self.file_offset..end;
        let at = at.key("finished");
        ranges::check_list(&self.finished, &at)?;
        ranges::check_blocks(&self.finished, block_size, &span, "ordered extent", &at)?;
        if ranges::first_uncovered(std::slice::from_ref(&span), &self.finished).is_none() {
            return Err(at.refuse("covers the whole ordered extent, which would be done already"));
        }
        Ok(span)
    }
}

impl OrderedKind {
    fn read(json: &Json<'_>, at: At<'_>) -> Result<Self, Invalid> {
        let flags = list(json, at, |json, at| match text(json, at)? {
            "nocow" => Ok(OrderedKind::Nocow),
            "prealloc" => Ok(OrderedKind::Prealloc),
            _ => Err(at.refuse(format!("{json} is unknown; flags are nocow and prealloc"))),
        })?;
        match flags[..] {
            [] => Ok(OrderedKind::Plain),
            [kind] => Ok(kind),
            [first, second, ..] if first == second => Err(at.refuse(format!(
                "{:?} stands twice",
                first.flag().unwrap_or_default()
            ))),
            _ => Err(at.refuse("at most one of nocow and prealloc")),
        }
    }

    /// The flag that stands for it in JSON; a plain extent has none.
    #[must_use]
    pub fn flag(self) -> Option<&'static str> {
        match self {
            OrderedKind::Plain => None,
            OrderedKind::Nocow => Some("nocow"),
            OrderedKind::Prealloc => Some("prealloc"),
        }
    }
}

impl BioLimits {
    fn read(json: &Json<'_>, at: At<'_>) -> Result<Self, Invalid> {
        let fields = Fields::new(json, at, &["max_bytes", "max_segments"])?;
        let default = Self::default();
        Ok(Self {
            max_bytes: fields
                .optional("max_bytes", number)?
                .unwrap_or(default.max_bytes),
            max_segments: fields
                .optional("max_segments", number)?
                .unwrap_or(default.max_segments),
        })
    }

    fn check(&self, block_size: u64) -> Result<(), Invalid> {
        let at = At::Root.key("bio");
        if self.max_bytes == 0 || !self.max_bytes.is_multiple_of(block_size) {
            return Err(at.key("max_bytes").refuse(format!(
                "{} is not a positive multiple of the block size {block_size}",
                self.max_bytes
            )));
        }
        if self.max_segments == 0 {
            return Err(at
                .key("max_segments")
                .refuse("0; a bio has at least 1 segment"));
        }
        Ok(())
    }
}

impl Default for BioLimits {
    fn default() -> Self {
        Self {
            max_bytes: MAX_BYTES_DEFAULT,
            max_segments: MAX_SEGMENTS_DEFAULT,
        }
    }
}

/// The input form; keys that have their default value are left out.
impl Serialize for WritebackScenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", "writeback")?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("block_size", &self.block_size)?;
        map.serialize_entry("i_size", &self.i_size)?;
        map.serialize_entry("folios", &self.folios)?;
        map.serialize_entry("ordered", &self.ordered)?;
        if self.bio != BioLimits::default() {
            map.serialize_entry("bio", &self.bio)?;
        }
        if !self.refuse.is_empty() {
            map.serialize_entry("refuse", &self.refuse)?;
        }
        if !self.fail_io.is_empty() {
            map.serialize_entry("fail_io", &Pairs(&self.fail_io))?;
        }
        if !self.complete {
            map.serialize_entry("complete", &false)?;
        }
        map.end()
    }
}

impl Serialize for FolioPass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("pos", &self.pos)?;
        map.serialize_entry("size", &self.size)?;
        map.serialize_entry("submit", &Pairs(&self.submit))?;
        if self.dirty != self.submit {
            map.serialize_entry("dirty", &Pairs(&self.dirty))?;
        }
        if self.range != (self.pos..self.pos.saturating_add(self.size)) {
            map.serialize_entry("range", &pair(&self.range))?;
        }
        map.end()
    }
}

impl Serialize for OrderedExtent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("file_offset", &self.file_offset)?;
        map.serialize_entry("num_bytes", &self.num_bytes)?;
        map.serialize_entry("disk_bytenr", &self.disk_bytenr)?;
        if self.offset != 0 {
            map.serialize_entry("offset", &self.offset)?;
        }
        if Some(self.disk_num_bytes) != self.num_bytes.checked_add(self.offset) {
            map.serialize_entry("disk_num_bytes", &self.disk_num_bytes)?;
        }
        if let Some(flag) = self.kind.flag() {
            map.serialize_entry("flags", &[flag])?;
        }
        if !self.finished.is_empty() {
            map.serialize_entry("finished", &Pairs(&self.finished))?;
        }
        map.end()
    }
}

impl Serialize for BioLimits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bio = serializer.serialize_struct("bio", 2)?;
        bio.serialize_field("max_bytes", &self.max_bytes)?;
        bio.serialize_field("max_segments", &self.max_segments)?;
        bio.end()
    }
}

struct Pairs<'a>(&'a [Range<u64>]);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ranges::serialize_list(self.0, serializer)
    }
}
