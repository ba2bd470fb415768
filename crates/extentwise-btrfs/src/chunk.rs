//! Chunks: which logical addresses lie where on the device.

use std::collections::BTreeMap;

use zerocopy::FromBytes;

use crate::disk::{Key, RawChunk, RawKey, RawStripe, kind, objectid};
use crate::fault::{Error, Field, Rule, Unsupported};
use crate::superblock::Superblock;

/// The flags of a chunk's type.
mod flags {
    pub(super) const SYSTEM: u64 = 1 << 1;
    pub(super) const METADATA: u64 = 1 << 2;
    pub(super) const RAID1: u64 = 1 << 4;
    pub(super) const DUP: u64 = 1 << 5;
    pub(super) const RAID1C3: u64 = 1 << 9;
    pub(super) const RAID1C4: u64 = 1 << 10;
    /// RAID0, RAID10, RAID5 and RAID6.
    pub(super) const STRIPED: u64 = 1 << 3 | 1 << 6 | 1 << 7 | 1 << 8;
    /// Data, system and metadata.
    pub(super) const CONTENT: u64 = 0b111;
}

/// Copies that a chunk can have; RAID1C4 has the most.
const COPIES_MAX: usize = 4;

/// One copy of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Which one, from 1.
    pub mirror: u32,
    /// Its first byte on the device.
    pub physical: u64,
}

/// The chunks of an image, by their logical address.
///
/// **Invariant**: they do not overlap, and neither their logical end nor the end
/// of a stripe overflows.
#[derive(Debug)]
pub(crate) struct ChunkMap {
    sectorsize: u64,
    devid: u64,
    chunks: BTreeMap<u64, Chunk>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    len: u64,
    flags: u64,
    copies: u32,
    stripes: [u64; COPIES_MAX],
}

/// A chunk that cannot be taken.
#[derive(Debug)]
pub(crate) enum ChunkFault {
    /// It breaks a rule.
    Field(Field),
    /// It is sound, and not supported.
    Unsupported(Unsupported),
}

impl From<Field> for ChunkFault {
    fn from(field: Field) -> Self {
        Self::Field(field)
    }
}

impl From<Unsupported> for ChunkFault {
    fn from(what: Unsupported) -> Self {
        Self::Unsupported(what)
    }
}

impl ChunkMap {
    /// The chunks of the superblock's array: those where the chunk tree lies.
    pub(crate) fn of_system(superblock: &Superblock) -> Result<Self, Error> {
        let mut map = Self {
            sectorsize: superblock.sectorsize.into(),
            devid: superblock.devid,
            chunks: BTreeMap::new(),
        };
        let array = superblock.system_chunks.as_slice();
        let mut rest = array;
        while !rest.is_empty() {
            let at = array.len() - rest.len();
            rest = map.insert_first(rest).map_err(|fault| match fault {
                ChunkFault::Field(field) => Error::SystemChunk { at, field },
                ChunkFault::Unsupported(what) => what.into(),
            })?;
        }
        Ok(map)
    }

    /// Takes the first key and chunk of the array, and answers the rest of it.
    fn insert_first<'a>(&mut self, array: &'a [u8]) -> Result<&'a [u8], ChunkFault> {
        let left = array.len() as u64;
        let short = |name, least: usize| Field::new(name, left, Rule::AtLeast(least as u64));
        let key_len = size_of::<RawKey>();
        let (key, behind) =
            RawKey::read_from_prefix(array).map_err(|_| short("bytes left for a key", key_len))?;
        let key = key.key();
        if key.kind != kind::CHUNK_ITEM || key.objectid != objectid::FIRST_CHUNK_TREE {
            let rule = Rule::Is(kind::CHUNK_ITEM.into());
            return Err(Field::new("key type", key.kind.into(), rule).into());
        }
        let (chunk, _) = RawChunk::read_from_prefix(behind)
            .map_err(|_| short("bytes left for a chunk", key_len + size_of::<RawChunk>()))?;
        let len = chunk_len(chunk.num_stripes.get());
        let (item, rest) = behind
            .split_at_checked(len)
            .ok_or_else(|| short("bytes left for stripes", key_len + len))?;
        self.insert(key, item)?;
        Ok(rest)
    }

    /// Takes the chunk of an item with this key and these bytes. The same chunk
    /// once more is fine: the system's are in the superblock and in the tree.
    pub(crate) fn insert(&mut self, key: Key, item: &[u8]) -> Result<(), ChunkFault> {
        let start = key.offset;
        let chunk = self.decode(start, item)?;
        let end = start.saturating_add(chunk.len);
        if let Some((&other, before)) = self.chunks.range(..end).next_back()
            && other.saturating_add(before.len) > start
            && (other, *before) != (start, chunk)
        {
            let rule = if other == start {
                Rule::Once
            } else {
                Rule::NoOverlap(other)
            };
            return Err(Field::new("chunk", start, rule).into());
        }
        self.chunks.insert(start, chunk);
        Ok(())
    }

    /// Where the copies of `[bytenr, bytenr + len)` lie, in the order of their
    /// mirror numbers; `None` if no chunk of metadata holds the whole range.
    pub(crate) fn copies(
        &self,
        bytenr: u64,
        len: u32,
    ) -> Option<impl Iterator<Item = Copy> + use<>> {
        let (start, chunk) = self.chunks.range(..=bytenr).next_back()?;
        let into = bytenr - start;
        let fits = into.checked_add(len.into())? <= chunk.len;
        if !fits || chunk.flags & (flags::METADATA | flags::SYSTEM) == 0 {
            return None;
        }
        let stripes = (1..).zip(chunk.stripes).take(chunk.copies as usize);
        Some(stripes.map(move |(mirror, stripe)| Copy {
            mirror,
            physical: stripe.saturating_add(into),
        }))
    }

    fn decode(&self, start: u64, item: &[u8]) -> Result<Chunk, ChunkFault> {
        let size = item.len() as u64;
        let (raw, stripes) = RawChunk::read_from_prefix(item).map_err(|_| {
            let least = size_of::<RawChunk>() as u64;
            Field::new("size of the chunk item", size, Rule::AtLeast(least))
        })?;
        let count = raw.num_stripes.get();
        let wanted = chunk_len(count) as u64;
        if size != wanted {
            return Err(Field::new("size of the chunk item", size, Rule::Is(wanted)).into());
        }
        let len = raw.length.get();
        for (name, value) in [("chunk address", start), ("chunk length", len)] {
            if !value.is_multiple_of(self.sectorsize) {
                return Err(Field::new(name, value, Rule::MultipleOf(self.sectorsize)).into());
            }
        }
        if len == 0 {
            return Err(Field::new("chunk length", 0, Rule::AtLeast(self.sectorsize)).into());
        }
        if start.checked_add(len).is_none() {
            return Err(Field::new("chunk length", len, Rule::Overflows).into());
        }
        let kind = raw.kind.get();
        if kind & flags::STRIPED != 0 {
            return Err(Unsupported::Striped(start, kind).into());
        }
        let copies = copies_of(kind).ok_or(Field::new("chunk type", kind, Rule::Known))?;
        if usize::from(count) != copies {
            let rule = Rule::Is(copies as u64);
            return Err(Field::new("num_stripes", count.into(), rule).into());
        }
        let mut chunk = Chunk {
            len,
            flags: kind,
            copies: count.into(),
            stripes: [0; COPIES_MAX],
        };
        let raw_stripes = stripes.chunks_exact(size_of::<RawStripe>());
        for (stripe, bytes) in chunk.stripes.iter_mut().zip(raw_stripes) {
            if let Ok(raw) = RawStripe::read_from_bytes(bytes) {
                *stripe = self.stripe(start, len, &raw)?;
            }
        }
        Ok(chunk)
    }

    /// The place of a stripe of the chunk at `start`.
    fn stripe(&self, start: u64, len: u64, raw: &RawStripe) -> Result<u64, ChunkFault> {
        let (devid, offset) = (raw.devid.get(), raw.offset.get());
        if devid != self.devid {
            return Err(Unsupported::Device(start, devid).into());
        }
        if offset.checked_add(len).is_none() {
            return Err(Field::new("stripe offset", offset, Rule::Overflows).into());
        }
        Ok(offset)
    }
}

/// Bytes of a chunk with this many stripes.
fn chunk_len(stripes: u16) -> usize {
    size_of::<RawChunk>() + usize::from(stripes) * size_of::<RawStripe>()
}

/// Copies that a chunk of this type has; `None` if the type makes no sense.
fn copies_of(kind: u64) -> Option<usize> {
    if kind & flags::CONTENT == 0 {
        return None;
    }
    match kind & !flags::CONTENT {
        0 => Some(1),
        flags::DUP | flags::RAID1 => Some(2),
        flags::RAID1C3 => Some(3),
        flags::RAID1C4 => Some(4),
        _ => None,
    }
}
