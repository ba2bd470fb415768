//! What a tree block must be before anything in it is used (B9).

use extentwise_core::extent_buffer::{BlockMemory, CSUM_BYTES, ExtentBuffer};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::csum::compare_csum;
use crate::disk::{
    HEADER_LEN, ITEM_LEN, Key, LEVEL_MAX, POINTER_LEN, RawHeader, RawItem, RawPointer, Uuid,
    objectid,
};
use crate::fault::{Field, Reason, Rule};
use crate::superblock::Superblock;

/// The header of a tree block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The checksum, padded with zeroes.
    pub csum: [u8; CSUM_BYTES],
    /// The metadata UUID.
    pub fsid: Uuid,
    /// The logical address of the block.
    pub bytenr: u64,
    /// Flags in the low 56 bits, the revision of back references above.
    pub flags: u64,
    /// The UUID of the chunk tree.
    pub chunk_tree_uuid: Uuid,
    /// The transaction that wrote the block.
    pub generation: u64,
    /// The tree that the block was written for.
    pub owner: u64,
    /// Items or pointers in the block.
    pub nritems: u32,
    /// 0 for a leaf.
    pub level: u8,
}

/// What whoever points to a block knows of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) bytenr: u64,
    pub(crate) level: u8,
    pub(crate) generation: u64,
    /// The tree that the block is looked at for.
    pub(crate) tree: u64,
    /// The key by which the parent knows it; a root has no parent.
    pub(crate) first_key: Option<Key>,
}

/// What a pointer of a node says of a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer {
    pub(crate) key: Key,
    pub(crate) bytenr: u64,
    pub(crate) generation: u64,
}

/// What is kept of a sound block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sound {
    pub(crate) level: u8,
    pub(crate) generation: u64,
    pub(crate) owner: u64,
    /// First and last key; an empty leaf has none.
    pub(crate) keys: Option<(Key, Key)>,
}

/// An item of a leaf, its data in the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) key: Key,
    /// First byte of the data in the block.
    pub(crate) start: u64,
    pub(crate) size: u32,
}

/// Verifies a block by itself: checksum, address, UUID, and everything in it.
/// The pointers of a node are added to `pointers`.
pub(crate) fn block<M: BlockMemory>(
    superblock: &Superblock,
    buffer: &ExtentBuffer<M>,
    pointers: &mut Vec<Pointer>,
) -> Result<Sound, Reason> {
    let header = header(buffer)?;
    let computed = superblock.csum.of(buffer).map_err(|_| too_short(buffer))?;
    compare_csum(superblock.csum, &header.csum, &computed)?;
    let field = |name, found, rule| Err(Field::new(name, found, rule).into());
    if header.bytenr != buffer.start() {
        return field("bytenr", header.bytenr, Rule::Is(buffer.start()));
    }
    if header.fsid != superblock.metadata_uuid {
        return Err(Reason::Uuid {
            field: "fsid",
            found: header.fsid,
            expected: superblock.metadata_uuid,
        });
    }
    if header.level > LEVEL_MAX {
        return field("level", header.level.into(), Rule::AtMost(LEVEL_MAX.into()));
    }
    let most = records_max(buffer.len(), header.level);
    if header.nritems > most {
        return field("nritems", header.nritems.into(), Rule::AtMost(most.into()));
    }
    let keys = if header.level == 0 {
        leaf(buffer, header.nritems)?
    } else if header.nritems == 0 {
        return field("nritems", 0, Rule::AtLeast(1));
    } else {
        node(superblock, buffer, header.nritems, pointers)?
    };
    Ok(Sound {
        level: header.level,
        generation: header.generation,
        owner: header.owner,
        keys,
    })
}

impl Sound {
    /// Whether the block is the one that is pointed to.
    pub(crate) fn check(&self, expected: &Expected) -> Result<(), Reason> {
        let field = |name, found, rule| Err(Field::new(name, found, rule).into());
        if self.level != expected.level {
            return field("level", self.level.into(), Rule::Is(expected.level.into()));
        }
        if self.generation != expected.generation {
            return field("generation", self.generation, Rule::Is(expected.generation));
        }
        if let Some(rule) = broken_owner_rule(expected.tree, self.owner) {
            return field("owner", self.owner, rule);
        }
        match (expected.first_key, self.keys) {
            (Some(parent), Some((key, _))) if key != parent => {
                Err(Reason::FirstKey { key, parent })
            }
            (Some(_), None) => field("nritems", 0, Rule::AtLeast(1)),
            _ => Ok(()),
        }
    }
}

/// The header, unchecked.
pub(crate) fn header<M: BlockMemory>(buffer: &ExtentBuffer<M>) -> Result<Header, Reason> {
    let mut raw = RawHeader::new_zeroed();
    buffer
        .read(0, raw.as_mut_bytes())
        .map_err(|_| too_short(buffer))?;
    Ok(Header {
        csum: raw.csum,
        fsid: raw.fsid,
        bytenr: raw.bytenr.get(),
        flags: raw.flags.get(),
        chunk_tree_uuid: raw.chunk_tree_uuid,
        generation: raw.generation.get(),
        owner: raw.owner.get(),
        nritems: raw.nritems.get(),
        level: raw.level,
    })
}

/// Items or pointers that a block of this level has room for.
pub(crate) fn records_max(len: usize, level: u8) -> u32 {
    let record = if level == 0 { ITEM_LEN } else { POINTER_LEN };
    u32::try_from(len.saturating_sub(HEADER_LEN) / record).unwrap_or(u32::MAX)
}

/// Calls `visit` with the first `count` items of a leaf.
pub(crate) fn each_item<M: BlockMemory, E: From<Reason>>(
    buffer: &ExtentBuffer<M>,
    count: u32,
    mut visit: impl FnMut(u32, Item) -> Result<(), E>,
) -> Result<(), E> {
    each_record(buffer, count, |slot, raw: &RawItem| {
        let item = Item {
            key: raw.key.key(),
            start: HEADER_LEN as u64 + u64::from(raw.offset.get()),
            size: raw.size.get(),
        };
        visit(slot, item)
    })
}

/// Calls `visit` with the first `count` pointers of a node.
pub(crate) fn each_pointer<M: BlockMemory, E: From<Reason>>(
    buffer: &ExtentBuffer<M>,
    count: u32,
    mut visit: impl FnMut(u32, Pointer) -> Result<(), E>,
) -> Result<(), E> {
    each_record(buffer, count, |slot, raw: &RawPointer| {
        let pointer = Pointer {
            key: raw.key.key(),
            bytenr: raw.blockptr.get(),
            generation: raw.generation.get(),
        };
        visit(slot, pointer)
    })
}

/// Keys ascend, and the data of each item ends where that of the one before
/// begins, from the end of the block down, without reaching the items.
fn leaf<M: BlockMemory>(
    buffer: &ExtentBuffer<M>,
    count: u32,
) -> Result<Option<(Key, Key)>, Reason> {
    let mut keys: Option<(Key, Key)> = None;
    let items_end = HEADER_LEN as u64 + u64::from(count) * ITEM_LEN as u64;
    let mut data_start = buffer.len() as u64;
    each_item(buffer, count, |slot, item| {
        keys = Some(ascending(slot, item.key, keys)?);
        let end = item.start + u64::from(item.size);
        if end != data_start {
            let rule = Rule::Is(data_start);
            return Err(Field::of_item(slot, "end of data", end, rule).into());
        }
        if item.start < items_end {
            let rule = Rule::AtLeast(items_end);
            return Err(Field::of_item(slot, "start of data", item.start, rule).into());
        }
        data_start = item.start;
        Ok::<_, Reason>(())
    })?;
    Ok(keys)
}

/// Keys ascend, and children lie at addresses where blocks can be.
fn node<M: BlockMemory>(
    superblock: &Superblock,
    buffer: &ExtentBuffer<M>,
    count: u32,
    pointers: &mut Vec<Pointer>,
) -> Result<Option<(Key, Key)>, Reason> {
    let mut keys: Option<(Key, Key)> = None;
    let sector = u64::from(superblock.sectorsize);
    pointers.reserve(count as usize);
    each_pointer(buffer, count, |slot, pointer| {
        keys = Some(ascending(slot, pointer.key, keys)?);
        if !pointer.bytenr.is_multiple_of(sector) {
            let rule = Rule::MultipleOf(sector);
            return Err(Field::of_item(slot, "blockptr", pointer.bytenr, rule).into());
        }
        pointers.push(pointer);
        Ok::<_, Reason>(())
    })?;
    Ok(keys)
}

/// The first and last key with `key` behind them.
fn ascending(slot: u32, key: Key, keys: Option<(Key, Key)>) -> Result<(Key, Key), Reason> {
    match keys {
        None => Ok((key, key)),
        Some((first, before)) if before < key => Ok((first, key)),
        Some((_, before)) => Err(Reason::KeyOrder { slot, key, before }),
    }
}

/// Calls `visit` with records of one kind that lie behind the header, copied out
/// many at a time: a bounds check a record would cost more than the record.
fn each_record<M, T, E>(
    buffer: &ExtentBuffer<M>,
    count: u32,
    mut visit: impl FnMut(u32, &T) -> Result<(), E>,
) -> Result<(), E>
where
    M: BlockMemory,
    T: FromBytes + IntoBytes + Immutable + std::marker::Copy,
    E: From<Reason>,
{
    const BATCH: u32 = 64;
    let mut records = [T::new_zeroed(); BATCH as usize];
    let mut done = 0;
    while done < count {
        let now = (count - done).min(BATCH);
        let at = HEADER_LEN as u64 + u64::from(done) * size_of::<T>() as u64;
        let batch = records.get_mut(..now as usize).unwrap_or_default();
        buffer
            .read(at, batch.as_mut_bytes())
            .map_err(|_| too_short(buffer))?;
        for (slot, record) in (done..).zip(batch.iter()) {
            visit(slot, record)?;
        }
        done += now;
    }
    Ok(())
}

/// The rule that a block breaks which is in `tree` and was written for `owner`.
fn broken_owner_rule(tree: u64, owner: u64) -> Option<Rule> {
    match tree {
        // Their blocks name the subvolume, or the log.
        objectid::TREE_LOG | objectid::TREE_RELOC => None,
        // Subvolumes share blocks.
        _ if is_subvolume(tree) => (!is_subvolume(owner)).then_some(Rule::Subvolume),
        _ => (tree != owner).then_some(Rule::Is(tree)),
    }
}

/// Whether this is the id of a subvolume. Quota groups and the trees of the
/// system, whose ids count down from the top, have some of the top bits.
fn is_subvolume(id: u64) -> bool {
    id == objectid::FS_TREE || (id >= objectid::FIRST_FREE && id >> 48 == 0)
}

#[cold]
fn too_short<M: BlockMemory>(buffer: &ExtentBuffer<M>) -> Reason {
    let rule = Rule::AtLeast(HEADER_LEN as u64);
    Field::new("length of the block", buffer.len() as u64, rule).into()
}
