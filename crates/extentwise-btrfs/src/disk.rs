//! Structures as they lie on disk: little-endian, unaligned, nothing checked.

use std::fmt;
use std::mem::size_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A UUID, as bytes.
pub type Uuid = [u8; 16];

/// Places of the superblock and its mirrors.
pub const SUPERBLOCK_OFFSETS: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
/// Bytes of a superblock.
pub const SUPERBLOCK_LEN: usize = size_of::<RawSuperblock>();
/// What a superblock is recognised by.
pub(crate) const MAGIC: [u8; 8] = *b"_BHRfS_M";
/// A tree has the levels 0 (leaves) to 7.
pub const LEVEL_MAX: u8 = 7;

/// Bytes of the header before the items of a leaf or the pointers of a node.
pub(crate) const HEADER_LEN: usize = size_of::<RawHeader>();
/// Bytes that an item takes beside its data.
pub(crate) const ITEM_LEN: usize = size_of::<RawItem>();
/// Bytes of a pointer to a child.
pub(crate) const POINTER_LEN: usize = size_of::<RawPointer>();

/// A key as trees order it. Object id first, then type, then offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The object it is about.
    pub objectid: u64,
    /// What is said about it: the field `type`.
    pub kind: u8,
    /// A number whose meaning depends on the type.
    pub offset: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} {} {})", self.objectid, self.kind, self.offset)
    }
}

/// Item types that are looked into.
pub mod kind {
    /// Where a tree has its root.
    pub const ROOT_ITEM: u8 = 132;
    /// Where a range of logical addresses lies on devices.
    pub const CHUNK_ITEM: u8 = 228;
}

/// Object ids of trees.
pub mod objectid {
    /// The tree of tree roots.
    pub const ROOT_TREE: u64 = 1;
    /// The tree of chunks.
    pub const CHUNK_TREE: u64 = 3;
    /// The first subvolume.
    pub const FS_TREE: u64 = 5;
    /// The object id that all chunks have.
    pub const FIRST_CHUNK_TREE: u64 = 256;
    /// The first of the subvolumes made later.
    pub const FIRST_FREE: u64 = 256;
    /// The log of a subvolume, and the tree of these logs.
    pub const TREE_LOG: u64 = 6_u64.wrapping_neg();
    /// A subvolume while its blocks are relocated.
    pub const TREE_RELOC: u64 = 8_u64.wrapping_neg();
    /// The file through which data is relocated.
    pub const DATA_RELOC_TREE: u64 = 9_u64.wrapping_neg();
}

macro_rules! on_disk {
    ($($(#[$doc:meta])* struct $name:ident { $($field:ident: $kind:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $kind,)*
        }
    )*};
}

on_disk! {
    /// A key.
    struct RawKey {
        objectid: U64,
        kind: u8,
        offset: U64,
    }

    /// The beginning of every tree block.
    struct RawHeader {
        csum: [u8; 32],
        fsid: Uuid,
        bytenr: U64,
        flags: U64,
        chunk_tree_uuid: Uuid,
        generation: U64,
        owner: U64,
        nritems: U32,
        level: u8,
    }

    /// An item of a leaf; its data lies `offset` bytes behind the header.
    struct RawItem {
        key: RawKey,
        offset: U32,
        size: U32,
    }

    /// A pointer of a node to a child.
    struct RawPointer {
        key: RawKey,
        blockptr: U64,
        generation: U64,
    }

    /// The device of the image.
    struct RawDevice {
        devid: U64,
        total_bytes: U64,
        bytes_used: U64,
        io_align: U32,
        io_width: U32,
        sector_size: U32,
        kind: U64,
        generation: U64,
        start_offset: U64,
        dev_group: U32,
        seek_speed: u8,
        bandwidth: u8,
        uuid: Uuid,
        fsid: Uuid,
    }

    /// A superblock.
    struct RawSuperblock {
        csum: [u8; 32],
        fsid: Uuid,
        bytenr: U64,
        flags: U64,
        magic: [u8; 8],
        generation: U64,
        root: U64,
        chunk_root: U64,
        log_root: U64,
        log_root_transid: U64,
        total_bytes: U64,
        bytes_used: U64,
        root_dir_objectid: U64,
        num_devices: U64,
        sectorsize: U32,
        nodesize: U32,
        leafsize: U32,
        stripesize: U32,
        sys_chunk_array_size: U32,
        chunk_root_generation: U64,
        compat_flags: U64,
        compat_ro_flags: U64,
        incompat_flags: U64,
        csum_type: U16,
        root_level: u8,
        chunk_root_level: u8,
        log_root_level: u8,
        device: RawDevice,
        label: [u8; 256],
        cache_generation: U64,
        uuid_tree_generation: U64,
        metadata_uuid: Uuid,
        reserved: [u8; 224],
        sys_chunk_array: [u8; 2048],
        backup_roots: [u8; 672],
        padding: [u8; 565],
    }

    /// A chunk; as many stripes follow as it says.
    struct RawChunk {
        length: U64,
        owner: U64,
        stripe_len: U64,
        kind: U64,
        io_align: U32,
        io_width: U32,
        sector_size: U32,
        num_stripes: U16,
        sub_stripes: U16,
    }

    /// Where one copy or part of a chunk lies.
    struct RawStripe {
        devid: U64,
        offset: U64,
        dev_uuid: Uuid,
    }

    /// A root item, as far as all versions of the format have it.
    struct RawRoot {
        inode: [u8; 160],
        generation: U64,
        root_dirid: U64,
        bytenr: U64,
        byte_limit: U64,
        bytes_used: U64,
        last_snapshot: U64,
        flags: U64,
        refs: U32,
        drop_progress: RawKey,
        drop_level: u8,
        level: u8,
    }
}

impl RawKey {
    pub(crate) fn key(&self) -> Key {
        Key {
            objectid: self.objectid.get(),
            kind: self.kind,
            offset: self.offset.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structures_have_the_sizes_of_the_format() {
        assert_eq!(HEADER_LEN, 101);
        assert_eq!(ITEM_LEN, 25);
        assert_eq!(POINTER_LEN, 33);
        assert_eq!(size_of::<RawDevice>(), 98);
        assert_eq!(size_of::<RawChunk>(), 48);
        assert_eq!(size_of::<RawStripe>(), 32);
        assert_eq!(size_of::<RawRoot>(), 239);
        assert_eq!(SUPERBLOCK_LEN, 4096);
        assert_eq!(offset_of!(RawSuperblock, csum_type), 0xc4);
        assert_eq!(offset_of!(RawSuperblock, label), 0x12b);
        assert_eq!(offset_of!(RawSuperblock, metadata_uuid), 0x23b);
        assert_eq!(offset_of!(RawSuperblock, sys_chunk_array), 0x32b);
    }

    #[test]
    fn keys_are_ordered_by_object_then_type_then_offset() {
        let key = |objectid, kind, offset| Key {
            objectid,
            kind,
            offset,
        };
        assert!(key(1, 255, u64::MAX) < key(2, 0, 0));
        assert!(key(2, 1, u64::MAX) < key(2, 2, 0));
        assert!(key(2, 2, 1) < key(2, 2, 2));
    }
}
