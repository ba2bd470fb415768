//! What lies on the device: superblocks and blocks of the map. See the crate's
//! documentation for the layout.

use alloc::vec;
use alloc::vec::Vec;

use extentwise_checksum::{CSUM_BYTES, Crc32c};
use extentwise_core::extent_buffer::{BlockMemory, BufferError, Contiguous, ExtentBuffer};
use extentwise_core::geometry::{BlockSize, DiskByte};
use extentwise_engine::FileId;

use crate::error::Broken;
use crate::file::{Extent, State};

/// Where the two superblocks lie, whatever the block size.
pub(crate) const SLOTS: [u64; 2] = [0, BlockSize::MAX.bytes()];
/// Bytes of a superblock; the rest of its block is zero.
pub(crate) const SUPERBLOCK_LEN: usize = 512;

const SUPERBLOCK_MAGIC: u64 = u64::from_le_bytes(*b"XTWthin\x01");
const MAP_MAGIC: u64 = u64::from_le_bytes(*b"XTWtmap\x01");

/// Offsets that both kinds of block have.
mod at {
    pub(super) const MAGIC: u64 = 32;
    pub(super) const ADDRESS: u64 = 40;
    pub(super) const GENERATION: u64 = 48;
}

/// Offsets in a superblock.
mod superblock_at {
    pub(super) const BLOCK_SIZE: u64 = 56;
    pub(super) const BLOCKS: u64 = 64;
    pub(super) const ROOT: u64 = 72;
    pub(super) const ROOT_CSUM: u64 = 80;
    pub(super) const MAP_BLOCKS: u64 = 88;
}

/// Offsets in a block of the map.
mod map_at {
    pub(super) const OWNER: u64 = 56;
    pub(super) const NEXT: u64 = 64;
    pub(super) const NEXT_CSUM: u64 = 72;
    pub(super) const RECORDS: u64 = 80;
    pub(super) const FIRST: u64 = 88;
}

/// Bytes of a record: three words.
const RECORD_LEN: u64 = 24;
/// The first word of a record holds its tag and, from this bit on, a number.
const TAG_BITS: u32 = 8;
const TAG_FILE: u64 = 1;
const TAG_WRITTEN: u64 = 2;
const TAG_UNWRITTEN: u64 = 3;

/// Names a block of the map and what it must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// 0 where there is none, for a superblock lies there.
    pub(crate) block: u64,
    pub(crate) csum: u32,
}

/// A superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) generation: u64,
    pub(crate) block_size: BlockSize,
    pub(crate) blocks: u64,
    pub(crate) root: Pointer,
    pub(crate) map_blocks: u64,
}

impl Superblock {
    /// The block that goes to slot `address`.
    pub(crate) fn encode(&self, address: u64) -> Result<Vec<u8>, Broken> {
        use superblock_at as sb;
        let mut buffer = zeroed(address, vec![0; SUPERBLOCK_LEN]);
        buffer.set(at::MAGIC, SUPERBLOCK_MAGIC)?;
        buffer.set(at::ADDRESS, address)?;
        buffer.set(at::GENERATION, self.generation)?;
        buffer.set(sb::BLOCK_SIZE, self.block_size.bytes())?;
        buffer.set(sb::BLOCKS, self.blocks)?;
        buffer.set(sb::ROOT, self.root.block)?;
        buffer.set(sb::ROOT_CSUM, u64::from(self.root.csum))?;
        buffer.set(sb::MAP_BLOCKS, self.map_blocks)?;
        seal(&mut buffer)?;
        let mut bytes = buffer.into_memory().into_inner();
        bytes.resize(block_len(self.block_size), 0);
        Ok(bytes)
    }

    /// The superblock in the bytes at slot `address`.
    pub(crate) fn decode(address: u64, bytes: Vec<u8>) -> Result<Self, Broken> {
        use superblock_at as sb;
        let buffer = read(address, bytes)?;
        check_head(&buffer, SUPERBLOCK_MAGIC)?;
        let block_size = buffer.get(sb::BLOCK_SIZE)?;
        let block_size = BlockSize::new(block_size).map_err(|_| Broken::Field {
            name: "block size",
            value: block_size,
            rule: "must be a power of two from 512 to 65536",
        })?;
        let blocks = buffer.get(sb::BLOCKS)?;
        if blocks > u64::MAX >> block_size.shift() || blocks <= SLOTS[1] >> block_size.shift() {
            return Err(Broken::Field {
                name: "device blocks",
                value: blocks,
                rule: "must hold both superblocks and end below 2^64",
            });
        }
        let map_blocks = buffer.get(sb::MAP_BLOCKS)?;
        let root = pointer(&buffer, sb::ROOT, sb::ROOT_CSUM)?;
        if map_blocks > blocks || (map_blocks == 0) != (root.block == 0) {
            return Err(Broken::Field {
                name: "map blocks",
                value: map_blocks,
                rule: "must be some where the map has a root, and fit the device",
            });
        }
        Ok(Self {
            generation: buffer.get(at::GENERATION)?,
            block_size,
            blocks,
            root,
            map_blocks,
        })
    }
}

/// What the map is a list of: each file, followed by its extents in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    File {
        id: FileId,
        size: u64,
        /// How many of the records behind are its extents.
        extents: u64,
    },
    Extent {
        /// First block in the file.
        at: u64,
        extent: Extent,
    },
}

/// Records that one block of the map holds.
pub(crate) const fn records_in(block_size: BlockSize) -> u64 {
    (block_size.bytes() - map_at::FIRST) / RECORD_LEN
}

/// Lays `records` out in the blocks `places`, which must be as many as are
/// needed; answers their bytes, one behind the other, and what points at them.
pub(crate) fn encode_map(
    block_size: BlockSize,
    generation: u64,
    places: &[u64],
    mut records: impl Iterator<Item = Record>,
) -> Result<(Vec<u8>, Pointer), Broken> {
    let len = block_len(block_size);
    let mut bytes = vec![0; len.saturating_mul(places.len())];
    let mut owner = FileId(0);
    for (block, chunk) in places.iter().zip(bytes.chunks_exact_mut(len)) {
        let mut buffer = zeroed(block << block_size.shift(), chunk);
        buffer.set(at::MAGIC, MAP_MAGIC)?;
        buffer.set(at::ADDRESS, buffer.start())?;
        buffer.set(at::GENERATION, generation)?;
        let mut count = 0;
        for record in records.by_ref().take(record_count(block_size)) {
            if let Record::File { id, .. } = record {
                owner = id;
            }
            if count == 0 {
                buffer.set(map_at::OWNER, owner.0)?;
            }
            set_record(&mut buffer, map_at::FIRST + count * RECORD_LEN, record)?;
            count += 1;
        }
        buffer.set(map_at::RECORDS, count)?;
    }
    // From the last to the first, as each holds the checksum of the next.
    let mut next = Pointer::default();
    for (block, chunk) in places.iter().zip(bytes.chunks_exact_mut(len)).rev() {
        let mut buffer = ExtentBuffer::unread(block << block_size.shift(), Contiguous::new(chunk));
        buffer.fill_from_device(|_| Ok::<(), Broken>(()))?;
        buffer.set(map_at::NEXT, next.block)?;
        buffer.set(map_at::NEXT_CSUM, u64::from(next.csum))?;
        next = Pointer {
            block: *block,
            csum: seal(&mut buffer)?,
        };
    }
    Ok((bytes, next))
}

/// A block of the map, as it was read.
#[derive(Debug)]
pub(crate) struct MapBlock {
    buffer: ExtentBuffer<Contiguous<Vec<u8>>>,
    pub(crate) owner: FileId,
    pub(crate) next: Pointer,
    records: u64,
}

impl MapBlock {
    /// The block that `pointer` names, in these bytes.
    pub(crate) fn decode(
        block_size: BlockSize,
        generation: u64,
        pointer_to: Pointer,
        bytes: Vec<u8>,
    ) -> Result<Self, Broken> {
        let buffer = read(pointer_to.block << block_size.shift(), bytes)?;
        let csum = check_head(&buffer, MAP_MAGIC)?;
        if csum != pointer_to.csum {
            return Err(Broken::Checksum);
        }
        let found = buffer.get(at::GENERATION)?;
        if found != generation {
            return Err(Broken::Field {
                name: "generation",
                value: found,
                rule: "must be the superblock's",
            });
        }
        let records = buffer.get(map_at::RECORDS)?;
        if records == 0 || records > records_in(block_size) {
            return Err(Broken::Field {
                name: "records",
                value: records,
                rule: "must be some, and fit the block",
            });
        }
        Ok(Self {
            owner: FileId(buffer.get(map_at::OWNER)?),
            next: pointer(&buffer, map_at::NEXT, map_at::NEXT_CSUM)?,
            records,
            buffer,
        })
    }

    /// Its records, in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = Result<Record, Broken>> {
        let offsets = (0..self.records).map(|nth| map_at::FIRST + nth * RECORD_LEN);
        offsets.map(|offset| get_record(&self.buffer, offset))
    }
}

fn set_record<M: BlockMemory>(
    buffer: &mut ExtentBuffer<M>,
    offset: u64,
    record: Record,
) -> Result<(), Broken> {
    let words = match record {
        Record::File { id, size, extents } => [TAG_FILE | extents << TAG_BITS, id.0, size],
        Record::Extent { at, extent } => {
            let tag = match extent.state {
                State::Written => TAG_WRITTEN,
                State::Unwritten => TAG_UNWRITTEN,
            };
            [tag | extent.len << TAG_BITS, at, extent.disk]
        }
    };
    for (word, offset) in words.into_iter().zip((offset..).step_by(8)) {
        buffer.set(offset, word)?;
    }
    Ok(())
}

fn get_record<M: BlockMemory>(buffer: &ExtentBuffer<M>, offset: u64) -> Result<Record, Broken> {
    let head: u64 = buffer.get(offset)?;
    let (second, third) = (buffer.get(offset + 8)?, buffer.get(offset + 16)?);
    let (tag, number) = (head & ((1 << TAG_BITS) - 1), head >> TAG_BITS);
    let state = match tag {
        TAG_FILE => {
            return Ok(Record::File {
                id: FileId(second),
                size: third,
                extents: number,
            });
        }
        TAG_WRITTEN => State::Written,
        TAG_UNWRITTEN => State::Unwritten,
        value => {
            return Err(Broken::Field {
                name: "tag of a record",
                value,
                rule: "must be 1 (file), 2 (written) or 3 (unwritten)",
            });
        }
    };
    Ok(Record::Extent {
        at: second,
        extent: Extent {
            len: number,
            disk: third,
            state,
        },
    })
}

/// Bytes of a block: at most 64 KiB.
pub(crate) fn block_len(block_size: BlockSize) -> usize {
    usize::try_from(block_size.bytes()).unwrap_or(usize::MAX)
}

/// The first byte of a block; blocks were checked to lie on the device.
pub(crate) const fn disk_byte(block_size: BlockSize, block: u64) -> DiskByte {
    DiskByte::new(block << block_size.shift())
}

fn record_count(block_size: BlockSize) -> usize {
    usize::try_from(records_in(block_size)).unwrap_or(usize::MAX)
}

fn zeroed<M: AsRef<[u8]> + AsMut<[u8]>>(address: u64, bytes: M) -> ExtentBuffer<Contiguous<M>> {
    ExtentBuffer::zeroed(address, Contiguous::new(bytes))
}

/// These bytes, which the device gave.
fn read(address: u64, bytes: Vec<u8>) -> Result<ExtentBuffer<Contiguous<Vec<u8>>>, Broken> {
    let mut buffer = ExtentBuffer::unread(address, Contiguous::new(bytes));
    buffer.fill_from_device(|_| Ok::<(), Broken>(()))?;
    Ok(buffer)
}

/// Puts the checksum in, and answers it.
fn seal<M: BlockMemory>(buffer: &mut ExtentBuffer<M>) -> Result<u32, Broken> {
    let field = buffer.checksum(Crc32c::new())?;
    buffer.write(0, &field)?;
    Ok(buffer.get(0)?)
}

/// Checks what every block begins with; answers its checksum.
fn check_head<M: BlockMemory>(buffer: &ExtentBuffer<M>, magic: u64) -> Result<u32, Broken> {
    if buffer.get::<u64>(at::MAGIC)? != magic {
        return Err(Broken::Magic);
    }
    let mut stored = [0; CSUM_BYTES];
    buffer.read(0, &mut stored)?;
    if stored != buffer.checksum(Crc32c::new())? {
        return Err(Broken::Checksum);
    }
    let address = buffer.get(at::ADDRESS)?;
    if address != buffer.start() {
        return Err(Broken::Field {
            name: "address",
            value: address,
            rule: "must be that of its own place",
        });
    }
    Ok(buffer.get(0)?)
}

fn pointer<M: BlockMemory>(
    buffer: &ExtentBuffer<M>,
    block_at: u64,
    csum_at: u64,
) -> Result<Pointer, Broken> {
    let csum = buffer.get(csum_at)?;
    Ok(Pointer {
        block: buffer.get(block_at)?,
        csum: u32::try_from(csum).map_err(|_| Broken::Field {
            name: "checksum of the next block",
            value: csum,
            rule: "must have 32 bits",
        })?,
    })
}

impl From<BufferError> for Broken {
    fn from(error: BufferError) -> Self {
        let (value, rule) = match error {
            BufferError::OutOfRange { offset, .. } => (offset, "must lie in the block"),
            BufferError::NotUptodate => (0, "must have been read before"),
        };
        Self::Field {
            name: "access at byte",
            value,
            rule,
        }
    }
}
