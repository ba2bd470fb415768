//! Tiny images made in memory, to be broken by tests and fuzz targets.
//!
//! Such an image has a superblock, two chunks, a chunk tree, a root tree, a
//! subvolume of a node and two leaves, a snapshot that shares the leaves, and an
//! empty tree. It is as much of the format as the walk looks at, no mountable
//! file system.

// Every number here is a constant of the image below, or its offset in it.
#![allow(clippy::cast_possible_truncation)]

use extentwise_checksum::Algorithm;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::disk::{
    HEADER_LEN, ITEM_LEN, Key, MAGIC, RawChunk, RawHeader, RawItem, RawKey, RawPointer, RawRoot,
    RawStripe, RawSuperblock, SUPERBLOCK_LEN, SUPERBLOCK_OFFSETS, Uuid, kind, objectid,
};

/// Bytes of a tree block and of a sector.
pub const NODESIZE: usize = 4096;

/// Logical addresses of the blocks.
pub mod at {
    /// The leaf of the chunk tree.
    pub const CHUNK_TREE: u64 = 1 << 20;
    /// The leaf of the root tree.
    pub const ROOT_TREE: u64 = 2 << 20;
    /// The root of the subvolume, a node.
    pub const SUBVOLUME: u64 = (2 << 20) + 0x1000;
    /// The root of the snapshot, a node.
    pub const SNAPSHOT: u64 = (2 << 20) + 0x2000;
    /// The leaves of both.
    pub const LEAVES: [u64; 2] = [(2 << 20) + 0x3000, (2 << 20) + 0x4000];
    /// An empty leaf.
    pub const EMPTY: u64 = (2 << 20) + 0x5000;
    /// All of them.
    pub const ALL: [u64; 7] = [
        CHUNK_TREE, ROOT_TREE, SUBVOLUME, SNAPSHOT, LEAVES[0], LEAVES[1], EMPTY,
    ];
}

const FSID: Uuid = *b"extentwise tests";
const GENERATION: u64 = 9;
const DEVID: u64 = 1;
const CHUNK_LENGTH: u64 = 0x8000;
/// Logical start, type and stripes of the chunks.
const CHUNKS: [(u64, u64, [u64; 2]); 2] = [
    (at::CHUNK_TREE, 1 << 1, [0x1_4000, 0x1_c000]),
    (at::ROOT_TREE, 1 << 2, [0x2_4000, 0x2_c000]),
];
const IMAGE_LEN: usize = 0x3_4000;
const DUP: u64 = 1 << 5;

/// How many copies the chunks keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// One.
    Single,
    /// Two, on the one device.
    Dup,
}

/// A tiny image.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Its bytes.
    pub bytes: Vec<u8>,
    copies: Copies,
}

impl Synthetic {
    /// A sound image.
    #[must_use]
    pub fn new(copies: Copies) -> Self {
        let mut image = Self {
            bytes: vec![0; IMAGE_LEN],
            copies,
        };
        let chunks = CHUNKS.map(|(start, kind, stripes)| {
            let key = key(objectid::FIRST_CHUNK_TREE, kind::CHUNK_ITEM, start);
            (key, image.chunk(kind, stripes))
        });
        image.superblock(&chunks);
        image.leaf(at::CHUNK_TREE, objectid::CHUNK_TREE, &chunks);
        let root = |id, bytenr, level| {
            let mut root = RawRoot::new_zeroed();
            root.generation.set(GENERATION);
            root.bytenr.set(bytenr);
            root.level = level;
            (key(id, kind::ROOT_ITEM, 0), root.as_bytes().to_vec())
        };
        let roots = [
            root(objectid::FS_TREE, at::SUBVOLUME, 1),
            root(7, at::EMPTY, 0),
            root(objectid::FIRST_FREE, at::SNAPSHOT, 1),
        ];
        image.leaf(at::ROOT_TREE, objectid::ROOT_TREE, &roots);
        let items = |first: u64| {
            let item = |id| (key(id, 1, 0), vec![0xa5; 100]);
            (first..first + 5).map(item).collect::<Vec<_>>()
        };
        let pointers = [(257, at::LEAVES[0]), (300, at::LEAVES[1])];
        for (id, bytenr) in pointers {
            image.leaf(bytenr, objectid::FS_TREE, &items(id));
        }
        let pointers = pointers.map(|(id, bytenr)| (key(id, 1, 0), bytenr));
        image.node(at::SUBVOLUME, objectid::FS_TREE, &pointers);
        image.node(at::SNAPSHOT, objectid::FIRST_FREE, &pointers);
        image.leaf(at::EMPTY, 7, &[]);
        image.seal();
        image
    }

    /// Where the copies of a block begin.
    #[must_use]
    pub fn places(&self, bytenr: u64) -> Vec<usize> {
        let chunk = CHUNKS.iter().rev().find(|(start, ..)| *start <= bytenr);
        let Some((start, _, stripes)) = chunk else {
            return Vec::new();
        };
        let places = stripes
            .iter()
            .map(|stripe| (stripe + bytenr - start) as usize);
        places.take(self.count()).collect()
    }

    /// The bytes of one copy of a block, from mirror 1.
    pub fn block_mut(&mut self, bytenr: u64, mirror: usize) -> &mut [u8] {
        let place = self.places(bytenr)[mirror - 1];
        &mut self.bytes[place..place + NODESIZE]
    }

    /// The bytes of the superblock.
    pub fn superblock_mut(&mut self) -> &mut [u8] {
        let place = SUPERBLOCK_OFFSETS[0] as usize;
        &mut self.bytes[place..place + SUPERBLOCK_LEN]
    }

    /// Gives the superblock and all blocks the checksums of their bytes, by the
    /// algorithm that the superblock names.
    pub fn seal(&mut self) {
        let superblock = self.superblock_mut();
        let id = RawSuperblock::read_from_bytes(superblock).map_or(0, |raw| raw.csum_type.get());
        let Some(csum) = Algorithm::from_id(id) else {
            return;
        };
        seal(csum, superblock);
        for bytenr in at::ALL {
            for mirror in 1..=self.count() {
                seal(csum, self.block_mut(bytenr, mirror));
            }
        }
    }

    const fn count(&self) -> usize {
        match self.copies {
            Copies::Single => 1,
            Copies::Dup => 2,
        }
    }

    fn superblock(&mut self, chunks: &[(Key, Vec<u8>)]) {
        let mut raw = RawSuperblock::new_zeroed();
        raw.fsid = FSID;
        raw.bytenr.set(SUPERBLOCK_OFFSETS[0]);
        raw.magic = MAGIC;
        raw.generation.set(GENERATION);
        raw.root.set(at::ROOT_TREE);
        raw.chunk_root.set(at::CHUNK_TREE);
        raw.num_devices.set(1);
        raw.sectorsize.set(NODESIZE as u32);
        raw.nodesize.set(NODESIZE as u32);
        raw.chunk_root_generation.set(GENERATION);
        raw.device.devid.set(DEVID);
        raw.device.total_bytes.set(IMAGE_LEN as u64);
        raw.device.fsid = FSID;
        let (key, chunk) = &chunks[0];
        let system = [raw_key(*key).as_bytes(), chunk].concat();
        raw.sys_chunk_array[..system.len()].copy_from_slice(&system);
        raw.sys_chunk_array_size.set(system.len() as u32);
        self.superblock_mut().copy_from_slice(raw.as_bytes());
    }

    fn chunk(&self, kind: u64, stripes: [u64; 2]) -> Vec<u8> {
        let mut raw = RawChunk::new_zeroed();
        raw.length.set(CHUNK_LENGTH);
        raw.kind.set(match self.copies {
            Copies::Single => kind,
            Copies::Dup => kind | DUP,
        });
        raw.num_stripes.set(self.count() as u16);
        let mut bytes = raw.as_bytes().to_vec();
        for offset in &stripes[..self.count()] {
            let mut stripe = RawStripe::new_zeroed();
            stripe.devid.set(DEVID);
            stripe.offset.set(*offset);
            bytes.extend_from_slice(stripe.as_bytes());
        }
        bytes
    }

    fn leaf(&mut self, bytenr: u64, owner: u64, items: &[(Key, Vec<u8>)]) {
        let mut block = block(bytenr, owner, items.len(), 0);
        let mut end = NODESIZE;
        for (slot, (key, data)) in items.iter().enumerate() {
            let start = end - data.len();
            let raw = RawItem {
                key: raw_key(*key),
                offset: ((start - HEADER_LEN) as u32).into(),
                size: (data.len() as u32).into(),
            };
            let at = HEADER_LEN + slot * ITEM_LEN;
            block[at..at + ITEM_LEN].copy_from_slice(raw.as_bytes());
            block[start..end].copy_from_slice(data);
            end = start;
        }
        self.put(bytenr, &block);
    }

    fn node(&mut self, bytenr: u64, owner: u64, pointers: &[(Key, u64)]) {
        let mut block = block(bytenr, owner, pointers.len(), 1);
        let mut at = HEADER_LEN;
        for (key, blockptr) in pointers {
            let raw = RawPointer {
                key: raw_key(*key),
                blockptr: (*blockptr).into(),
                generation: GENERATION.into(),
            };
            block[at..at + raw.as_bytes().len()].copy_from_slice(raw.as_bytes());
            at += raw.as_bytes().len();
        }
        self.put(bytenr, &block);
    }

    fn put(&mut self, bytenr: u64, block: &[u8]) {
        for mirror in 1..=self.count() {
            self.block_mut(bytenr, mirror).copy_from_slice(block);
        }
    }
}

/// Gives a block or a superblock the checksum of its bytes.
pub fn seal(csum: Algorithm, block: &mut [u8]) {
    if let Some((field, behind)) = block.split_first_chunk_mut() {
        *field = csum.of_bytes(behind);
    }
}

fn block(bytenr: u64, owner: u64, nritems: usize, level: u8) -> Vec<u8> {
    let mut header = RawHeader::new_zeroed();
    header.fsid = FSID;
    header.bytenr.set(bytenr);
    header.generation.set(GENERATION);
    header.owner.set(owner);
    header.nritems.set(nritems as u32);
    header.level = level;
    let mut block = vec![0; NODESIZE];
    block[..HEADER_LEN].copy_from_slice(header.as_bytes());
    block
}

const fn key(objectid: u64, kind: u8, offset: u64) -> Key {
    Key {
        objectid,
        kind,
        offset,
    }
}

fn raw_key(key: Key) -> RawKey {
    RawKey {
        objectid: key.objectid.into(),
        kind: key.kind,
        offset: key.offset.into(),
    }
}
