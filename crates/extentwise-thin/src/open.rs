//! Opening: every byte is checked before it is believed.

use alloc::vec;

use extentwise_core::geometry::DiskByte;
use extentwise_device::{Device, read_exact};
use extentwise_engine::FileId;

use crate::disk::{MapBlock, Record, SLOTS, SUPERBLOCK_LEN, Superblock, block_len, disk_byte};
use crate::error::{Broken, ThinError};
use crate::file::{Extent, File};
use crate::persist::check_block;
use crate::ranges::Run;
use crate::store::ThinStore;

impl ThinStore {
    /// Opens the store on a device: the newest of its superblocks that is whole,
    /// and the map that it names, of which every block is read once.
    ///
    /// An older superblock serves only where the newer is torn. If the map of
    /// the newest is broken that is an error, for the blocks of the older map
    /// and its data may have been used again.
    pub fn open<D: Device + ?Sized>(device: &D) -> Result<Self, ThinError> {
        let (slot, superblock) = newest(device)?;
        let geometry = device.geometry();
        let block_size = superblock.block_size;
        check_block(block_size, geometry.logical_block())?;
        if let Some(capacity) = geometry.capacity()
            && capacity.get() >> block_size.shift() < superblock.blocks
        {
            return Err(ThinError::Shortened {
                capacity,
                blocks: superblock.blocks,
            });
        }
        let mut store = Self::empty(block_size, superblock.blocks)?;
        store.generation = superblock.generation;
        store.slot = slot;
        let mut reader = Reader {
            store: &mut store,
            file: None,
        };
        let mut next = superblock.root;
        for left in (0..superblock.map_blocks).rev() {
            let broken = |broken| ThinError::Map {
                at: DiskByte::new(next.block.saturating_mul(block_size.bytes())),
                broken,
            };
            reader.claim_map(next.block).map_err(broken)?;
            let mut bytes = vec![0; block_len(block_size)];
            read_exact(device, disk_byte(block_size, next.block), &mut bytes)?;
            let block = MapBlock::decode(block_size, superblock.generation, next, bytes);
            let block = block.map_err(broken)?;
            reader.read(&block).map_err(broken)?;
            if left == 0 {
                reader.end(block.next.block).map_err(broken)?;
            }
            next = block.next;
        }
        Ok(store)
    }
}

/// The newest superblock that is whole, and its slot. What is told of none is
/// the fault of one that there is.
fn newest<D: Device + ?Sized>(device: &D) -> Result<(usize, Superblock), ThinError> {
    let mut best: Option<(usize, Superblock)> = None;
    let mut fault = ThinError::NoSuperblock;
    // What every device can read at once.
    let logical = usize::try_from(device.geometry().logical_block()).unwrap_or(usize::MAX);
    let len = SUPERBLOCK_LEN.max(logical.min(block_len(extentwise_core::geometry::BlockSize::MAX)));
    for (slot, address) in SLOTS.into_iter().enumerate() {
        let at = DiskByte::new(address);
        let mut bytes = vec![0; len];
        read_exact(device, at, &mut bytes)?;
        bytes.truncate(SUPERBLOCK_LEN);
        match Superblock::decode(address, bytes) {
            Ok(found) => {
                if best.is_none_or(|(_, best)| best.generation < found.generation) {
                    best = Some((slot, found));
                }
            }
            Err(Broken::Magic) => {}
            Err(broken) => fault = ThinError::Superblock { at, broken },
        }
    }
    best.ok_or(fault)
}

/// Takes the records of the map up.
struct Reader<'s> {
    store: &'s mut ThinStore,
    /// The file whose records are being read.
    file: Option<Current>,
}

struct Current {
    id: FileId,
    /// Extents that are still to come.
    left: u64,
    /// Where the last of them ended, in blocks of the file.
    end: u64,
}

impl Reader<'_> {
    fn claim_map(&mut self, block: u64) -> Result<(), Broken> {
        let run = self.claim("map block", block, 1)?;
        self.store.map.insert(run);
        Ok(())
    }

    /// Takes blocks that must be nobody's else.
    fn claim(&mut self, name: &'static str, block: u64, count: u64) -> Result<Run, Broken> {
        let run = Run::at(block, count).filter(|run| run.end <= self.store.blocks);
        let run = run.ok_or(Broken::Field {
            name,
            value: block,
            rule: "must lie on the device, with all of its blocks, and have some",
        })?;
        if !self.store.space.free.covers(run) {
            return Err(Broken::Overlap { block, count });
        }
        self.store.space.free.take(run);
        Ok(run)
    }

    fn read(&mut self, block: &MapBlock) -> Result<(), Broken> {
        for (nth, record) in block.records().enumerate() {
            let record = record?;
            match record {
                Record::File { id, size, extents } => self.file(id, size, extents)?,
                Record::Extent { at, extent } => self.extent(at, extent)?,
            }
            let owner = self.file.as_ref().map(|file| file.id);
            if nth == 0 && owner != Some(block.owner) {
                return Err(Broken::Field {
                    name: "owner",
                    value: block.owner.0,
                    rule: "must be the file of the first record",
                });
            }
        }
        Ok(())
    }

    fn file(&mut self, id: FileId, size: u64, extents: u64) -> Result<(), Broken> {
        if let Some(last) = self.file.take() {
            if last.left > 0 {
                return Err(missing(last.left));
            }
            if id <= last.id {
                return Err(Broken::Field {
                    name: "file",
                    value: id.0,
                    rule: "must come behind the files with lesser numbers, once",
                });
            }
        }
        self.store.files.insert(id, File::with_size(size));
        self.file = Some(Current {
            id,
            left: extents,
            end: 0,
        });
        Ok(())
    }

    fn extent(&mut self, at: u64, extent: Extent) -> Result<(), Broken> {
        let end_max = u64::MAX >> self.store.block_size.shift();
        let Some(current) = self.file.as_mut().filter(|file| file.left > 0) else {
            return Err(Broken::Field {
                name: "extent at block",
                value: at,
                rule: "must be one of those that its file counts",
            });
        };
        let end = at.checked_add(extent.len).filter(|end| *end <= end_max);
        let end = end.filter(|_| at >= current.end);
        let end = end.ok_or(Broken::Field {
            name: "extent at block",
            value: at,
            rule: "must begin behind the one before, and end below 2^64 bytes",
        })?;
        current.end = end;
        current.left -= 1;
        let id = current.id;
        self.claim("extent's place", extent.disk, extent.len)?;
        if let Some(file) = self.store.files.get_mut(&id) {
            let before = file.extent_count();
            file.insert(at, extent);
            // What could be one extent becomes one.
            self.store.extents += file.extent_count();
            self.store.extents -= before;
        }
        Ok(())
    }

    /// Behind the last block of the map.
    fn end(&self, next: u64) -> Result<(), Broken> {
        if next != 0 {
            return Err(Broken::Field {
                name: "next block",
                value: next,
                rule: "must be none in the last that the superblock counts",
            });
        }
        match &self.file {
            Some(file) if file.left > 0 => Err(missing(file.left)),
            _ => Ok(()),
        }
    }
}

fn missing(left: u64) -> Broken {
    Broken::Field {
        name: "extents missing",
        value: left,
        rule: "a file must have as many as it counts",
    }
}
