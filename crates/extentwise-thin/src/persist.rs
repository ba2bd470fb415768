//! Making the map durable: its blocks, a flush, the superblock, a flush (C8).

use alloc::vec::Vec;

use extentwise_core::geometry::{BlockSize, DiskByte};
use extentwise_device::{Device, write_all};

use crate::disk::{SLOTS, Superblock, block_len, disk_byte, encode_map, records_in};
use crate::error::ThinError;
use crate::ranges::{RangeSet, Run};
use crate::store::ThinStore;

/// A superblock that was written, or half of it, and not flushed: after a crash
/// the device may hold it or the one before.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    superblock: Vec<u8>,
    slot: usize,
    generation: u64,
    /// The blocks of its map, which are durable.
    pub(crate) map: RangeSet,
    /// What is free once the superblock is durable, the old map apart.
    pub(crate) pinned: RangeSet,
}

impl ThinStore {
    /// Makes an empty store on a device, which must say where it ends. What was
    /// there is lost.
    ///
    /// A block must be a multiple of the device's physical block: where a power
    /// cut tears a block that is being written, nothing else lies in it.
    pub fn format<D: Device + ?Sized>(
        device: &D,
        block_size: BlockSize,
    ) -> Result<Self, ThinError> {
        let geometry = device.geometry();
        check_block(block_size, geometry.logical_block())?;
        check_block(block_size, geometry.physical_block())?;
        let capacity = geometry.capacity().ok_or(ThinError::NoCapacity)?;
        let mut store = Self::empty(block_size, capacity.get() >> block_size.shift())?;
        // A slot of the store that was here before must not be the newer one.
        let zeroes = alloc::vec![0; block_len(block_size)];
        for slot in SLOTS {
            write_all(device, DiskByte::new(slot), &[&zeroes])?;
        }
        device.flush()?;
        store.changed = true;
        store.persist(device)?;
        Ok(store)
    }

    /// Makes everything that the store says durable, in this order: the map, in
    /// free blocks; a flush, which covers all data too that was written before;
    /// the superblock, in the slot of the older one; a flush (C8). Where nothing
    /// changed since the last time there is nothing to do.
    ///
    /// After an error the store says the same as before, and a crash shows the
    /// state of the last success or this one. The next call goes on: with
    /// other blocks for the map, if that was not durable yet, else with the
    /// superblock. A store whose accounts hold ([`check`](Self::check)) does not
    /// run out of space here.
    pub fn persist<D: Device + ?Sized>(&mut self, device: &D) -> Result<(), ThinError> {
        // Until it is known which superblock is there, none may be replaced.
        self.settle(device)?;
        if !self.changed {
            return Ok(());
        }
        let generation = self.generation.checked_add(1);
        let generation = generation.ok_or(ThinError::Generations)?;
        let needed = self.records().div_ceil(records_in(self.block_size));
        let Some(runs) = self.space.take_all(needed) else {
            return Err(self.no_space());
        };
        let written = self.write_map(device, generation, &runs);
        let mut map = RangeSet::new();
        for run in runs {
            map.insert(run);
        }
        let superblock = match written {
            Ok(superblock) => superblock,
            Err(error) => {
                // No superblock names these blocks.
                self.space.free.extend(&map);
                return Err(error);
            }
        };
        self.doubt = Some(Doubt {
            superblock,
            slot: (self.slot + 1) % SLOTS.len(),
            generation,
            map,
            pinned: core::mem::take(&mut self.space.pinned),
        });
        self.space.fresh = RangeSet::new();
        self.changed = false;
        self.settle(device)
    }

    /// Writes the map to `runs` and flushes; answers the superblock to go with it.
    fn write_map<D: Device + ?Sized>(
        &self,
        device: &D,
        generation: u64,
        runs: &[Run],
    ) -> Result<Vec<u8>, ThinError> {
        let places: Vec<u64> = runs.iter().flat_map(|run| run.start..run.end).collect();
        let records = self.record_list();
        let encoded = encode_map(self.block_size, generation, &places, records);
        let first = places.first().copied().unwrap_or_default();
        let (bytes, root) = encoded.map_err(|broken| ThinError::Map {
            at: disk_byte(self.block_size, first),
            broken,
        })?;
        let mut rest = bytes.as_slice();
        for run in runs {
            let len = usize::try_from(run.len() << self.block_size.shift());
            let len = len.unwrap_or(rest.len()).min(rest.len());
            let (now, later) = rest.split_at(len);
            write_all(device, disk_byte(self.block_size, run.start), &[now])?;
            rest = later;
        }
        device.flush()?;
        let superblock = Superblock {
            generation,
            block_size: self.block_size,
            blocks: self.blocks,
            root,
            map_blocks: places.len() as u64,
        };
        let address = SLOTS[(self.slot + 1) % SLOTS.len()];
        superblock
            .encode(address)
            .map_err(|broken| ThinError::Superblock {
                at: DiskByte::new(address),
                broken,
            })
    }

    /// Ends the doubt, if there is any, by writing its superblock (again).
    fn settle<D: Device + ?Sized>(&mut self, device: &D) -> Result<(), ThinError> {
        let Some(doubt) = &self.doubt else {
            return Ok(());
        };
        let address = DiskByte::new(SLOTS[doubt.slot]);
        write_all(device, address, &[&doubt.superblock])?;
        device.flush()?;
        if let Some(doubt) = self.doubt.take() {
            self.space.free.extend(&doubt.pinned);
            self.space.free.extend(&self.map);
            self.map = doubt.map;
            self.generation = doubt.generation;
            self.slot = doubt.slot;
        }
        Ok(())
    }
}

/// Checks a block size against a block of the device.
pub(crate) fn check_block(block_size: BlockSize, device: u32) -> Result<(), ThinError> {
    // Both are powers of two.
    if u64::from(device) > block_size.bytes() {
        return Err(ThinError::DeviceBlock {
            block: block_size.bytes(),
            device,
        });
    }
    Ok(())
}
