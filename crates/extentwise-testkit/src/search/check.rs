//! What must hold in every state, and what makes two states the same.

use std::hash::{DefaultHasher, Hasher};

use extentwise_core::geometry::{BlockIndex, FileRange};

use super::world::{HALF, World, halves_of, range_of};

impl World<'_> {
    /// Looks at the whole state.
    pub(super) fn check(&self) -> Result<(), String> {
        for half in 0..self.size {
            self.check_half(half)?;
        }
        for cached in self.folios.iter().flatten() {
            let geometry = cached.state.geometry();
            for block in (0..geometry.blocks()).map(BlockIndex::new) {
                let busy = cached.state.dirty().test(block) || cached.state.writeback().test(block);
                if busy && !cached.state.is_block_uptodate(block) {
                    return Err(format!(
                        "{block:?} is dirty or in writeback, and not uptodate"
                    ));
                }
            }
        }
        if self.recorded > self.size || self.recorded < self.promised {
            return Err(format!(
                "size {} on record, {} promised, {} now",
                self.recorded, self.promised, self.size
            ));
        }
        self.check_extents()
    }

    /// A number for the state; equal numbers are taken for equal states.
    pub(super) fn key(&self) -> u128 {
        let mut text = heapless::Vec::<u8, 320>::new();
        let mut put = |bytes: &[u8]| {
            // It is long enough for the largest file.
            let _ = text.extend_from_slice(bytes);
        };
        for cached in &self.folios {
            let Some(cached) = cached else {
                put(&[0xff]);
                continue;
            };
            let state = &cached.state;
            let flags = u8::from(state.is_uptodate()) | u8::from(state.is_tagged_for_sync()) << 1;
            put(&[flags]);
            for block in (0..state.geometry().blocks()).map(BlockIndex::new) {
                let bits = u8::from(state.is_block_uptodate(block))
                    | u8::from(state.dirty().test(block)) << 1
                    | u8::from(state.writeback().test(block)) << 2;
                put(&[bits, cached.maps.flags(block).bits()]);
            }
        }
        put(&self.bytes);
        put(&self.disk);
        put(&self.truth);
        put(&self.may);
        put(&self.mapped.to_le_bytes());
        let [size, recorded] = [self.size, self.recorded].map(|half| half as u8);
        let [pending, promised] = [self.pending, self.promised].map(|half| half as u8);
        let barrier = self.barrier.map_or([0xff, 0], |barrier| {
            [barrier.at as u8, u8::from(barrier.sent)]
        });
        put(&[size, recorded, pending, promised]);
        put(&[barrier[0], barrier[1], u8::from(self.cutting)]);
        if let Some(sync) = &self.sync {
            put(&sync.want);
            put(&[sync.size as u8, u8::from(sync.failed)]);
        }
        put(&[0xfe]);
        for extent in self.table.iter_in(everything()) {
            let [start, len] = places(extent.range());
            let left = extent.bytes_left().get() / HALF;
            let kept = extent.truncated_len().get() / HALF;
            // What it says of the size so far.
            let valid = extent.valid_end().get() / HALF;
            let flags = extent.flags().bits();
            put(&[start, len, left as u8, kept as u8, valid as u8, flags]);
        }
        put(&[0xfd]);
        let mut flights: heapless::Vec<_, 8> = self.flights.iter().collect();
        flights.sort_unstable_by_key(|flight| flight.bio.disk_bytenr());
        for flight in flights {
            let [start, len] = places(flight.bio.file_range());
            put(&[start, len, (flight.bio.valid_len().get() / HALF) as u8]);
            put(&flight.bytes[halves_of(flight.bio.file_range())]);
        }
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(salt);
            hasher.write(&text);
            hasher.finish()
        };
        u128::from(half(0)) << 64 | u128::from(half(1))
    }

    /// Readers see what was written; what is clean may go; a crash shows nothing
    /// but what it may.
    fn check_half(&self, half: usize) -> Result<(), String> {
        let (truth, durable) = (self.truth[half], self.durable(half));
        let folio = half / (2 * self.shape.blocks);
        let block = BlockIndex::new(half / 2 % self.shape.blocks);
        let cached = self.folios[folio].as_ref().map(|cached| &cached.state);
        let cached = cached.filter(|state| state.is_block_uptodate(block));
        let seen = if cached.is_some() {
            self.bytes[half]
        } else {
            durable
        };
        if seen != truth {
            return Err(format!("half block {half} reads as {seen}, not {truth}"));
        }
        let is_busy =
            cached.is_some_and(|state| state.dirty().test(block) || state.writeback().test(block));
        if !is_busy && durable != truth {
            return Err(format!(
                "half block {half} is clean, and {durable}, not {truth}, on the device (C3)"
            ));
        }
        if half >= self.recorded {
            return Ok(());
        }
        let is_mapped = self.mapped & 1 << (half / 2) != 0;
        let under_way = self
            .flights
            .iter()
            .filter(|flight| is_mapped && halves_of(flight.bio.file_range()).contains(&half));
        let after_crash = under_way.map(|flight| flight.bytes[half]);
        for value in after_crash.chain([durable]) {
            if self.may[half] & 1 << value == 0 {
                return Err(format!("a crash shows {value} in half block {half} (C8)"));
            }
        }
        Ok(())
    }

    /// Each extent waits for a bio, each bio has its extent, and what is in
    /// writeback lies in an extent: nobody waits for ever.
    fn check_extents(&self) -> Result<(), String> {
        for extent in self.table.iter_in(everything()) {
            let mut flights = self.flights.iter();
            if !flights.any(|flight| flight.bio.ordered() == extent.id()) {
                return Err(format!("nothing will end the extent {}", extent.range()));
            }
        }
        for flight in &self.flights {
            let range = flight.bio.file_range();
            let extent = self.table.lookup(range.start());
            if extent.is_none_or(|extent| extent.id() != flight.bio.ordered()) {
                return Err(format!("the bio of {range} has no extent"));
            }
        }
        for cached in self.folios.iter().flatten() {
            let geometry = cached.state.geometry();
            for run in cached.state.writeback().runs(geometry.all()) {
                let range = geometry.bytes_of(run);
                let extents = self.table.iter_in(range);
                let covered: u64 = extents
                    .filter_map(|extent| extent.range().overlap(range))
                    .map(|part| part.len().get())
                    .sum();
                if covered != range.len().get() {
                    return Err(format!("{range} is in writeback for ever"));
                }
            }
        }
        Ok(())
    }
}

const fn everything() -> FileRange {
    range_of(0, super::shape::HALVES_MAX)
}

/// Start and length, in half blocks.
fn places(range: FileRange) -> [u8; 2] {
    let halves = halves_of(range);
    [halves.start as u8, halves.len() as u8]
}
