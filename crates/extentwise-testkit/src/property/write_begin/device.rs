//! A file system of one folio's blocks over a device that holds old data.

use extentwise_core::geometry::{FileOffset, FileRange};
use extentwise_core::write::{Mapping, MappingFlags, MappingKind};

use super::super::choice::Choices;

/// What lies in blocks that were allocated and never written.
const STALE: u8 = 0xA5;
/// What the file held before the case began.
const OLD: u8 = 0xB0;

/// What the file system knows of a block of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Hole,
    /// Allocated just now; if the file system is asked again, or the machine
    /// stops, it counts as data, so it must be written.
    Fresh,
    /// Reserved; allocated when it is written.
    Delayed,
    /// Allocated, and known not to hold data.
    Unwritten,
    Data,
}

/// How mapping answers during one write.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapPlan {
    /// What becomes of holes.
    pub(super) allocate: Place,
    /// The blocks that one answer covers at the most.
    pub(super) blocks_max: usize,
    /// Which answer is a wrong one, and how.
    pub(super) wrong: Option<(usize, Wrong)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Wrong {
    Error,
    /// The answer lies beside the block (V11).
    Beside,
    /// It covers all of the block but its last byte (V11).
    Short,
}

#[derive(Clone, Debug)]
pub(super) struct Device {
    block: usize,
    pub(super) places: Vec<Place>,
    pub(super) bytes: Vec<u8>,
}

impl Device {
    /// Blocks behind `size` are holes, and the file's bytes end there.
    pub(super) fn new(mut places: Vec<Place>, block: usize, size: usize) -> Self {
        let mut bytes = vec![STALE; places.len() * block];
        for (index, place) in places.iter_mut().enumerate() {
            let start = index * block;
            if start >= size {
                *place = Place::Hole;
            }
            if *place == Place::Data {
                let end = size.min(start + block);
                bytes[start..end].fill(OLD + u8::try_from(index).unwrap_or(0));
                bytes[end..start + block].fill(0);
            }
        }
        Self {
            block,
            places,
            bytes,
        }
    }

    /// What the file holds: zeros where there is no data.
    pub(super) fn contents(&self) -> Vec<u8> {
        let mut contents = vec![0; self.bytes.len()];
        for (index, part) in contents.chunks_mut(self.block).enumerate() {
            self.read(index, part);
        }
        contents
    }

    pub(super) fn read(&self, block: usize, into: &mut [u8]) {
        if matches!(self.places[block], Place::Data | Place::Fresh) {
            into.copy_from_slice(&self.bytes[block * self.block..(block + 1) * self.block]);
        } else {
            into.fill(0);
        }
    }

    pub(super) fn write(&mut self, block: usize, from: &[u8]) {
        self.bytes[block * self.block..(block + 1) * self.block].copy_from_slice(from);
        self.places[block] = Place::Data;
    }

    pub(super) fn punch(&mut self, block: usize) {
        self.places[block] = Place::Hole;
        self.bytes[block * self.block..(block + 1) * self.block].fill(STALE);
    }

    /// Answers where `block` is, and allocates if it is nowhere. `end` is the
    /// first block behind the write, `range` the write in the file.
    pub(super) fn map(
        &mut self,
        block: usize,
        end: usize,
        plan: MapPlan,
        asked: usize,
        range: FileRange,
    ) -> Result<Mapping, u8> {
        let wrong = plan.wrong.filter(|(at, _)| *at == asked);
        if let Some((_, Wrong::Error)) = wrong {
            return Err(7);
        }
        let place = self.places[block];
        let same = |other: &&Place| **other == place;
        let alike = self.places[block..end].iter().take_while(same).count();
        let count = alike.min(plan.blocks_max).max(1);
        let size = self.block as u64;
        let folio_pos = range.start().get() / size / self.places.len() as u64
            * (size * self.places.len() as u64);
        let at = |block: usize| FileOffset::new(folio_pos.saturating_add(block as u64 * size));
        let covered = |from, to| FileRange::new(from, to).unwrap_or_default();
        let answer = match wrong {
            Some((_, Wrong::Beside)) => covered(at(block + 1), at(block + 1 + count)),
            Some(_) => covered(at(block), FileOffset::new(at(block + 1).get() - 1)),
            None => covered(at(block), at(block + count)),
        };
        let kind = match place {
            Place::Hole if wrong.is_none() => {
                self.places[block..block + count].fill(plan.allocate);
                kind_of(plan.allocate)
            }
            place => kind_of(place),
        };
        Ok(Mapping {
            kind,
            range: answer,
        })
    }
}

fn kind_of(place: Place) -> MappingKind {
    match place {
        Place::Fresh | Place::Hole => MappingKind::New,
        Place::Delayed => MappingKind::Delay,
        Place::Unwritten => MappingKind::Unwritten,
        Place::Data => MappingKind::Mapped,
    }
}

/// What a reader learns of a block.
pub(super) fn flags_of(place: Place) -> MappingFlags {
    match place {
        Place::Hole => MappingFlags::empty(),
        place => kind_of(place).flags().difference(MappingFlags::NEW),
    }
}

pub(super) fn place(choices: &mut Choices<'_>) -> Place {
    choices.one_of(&[
        Place::Data,
        Place::Hole,
        Place::Data,
        Place::Unwritten,
        Place::Delayed,
    ])
}

pub(super) fn plan(choices: &mut Choices<'_>) -> MapPlan {
    let wrong = choices.one_of(&[Wrong::Error, Wrong::Beside, Wrong::Short, Wrong::Error]);
    MapPlan {
        allocate: choices.one_of(&[Place::Fresh, Place::Delayed, Place::Unwritten]),
        blocks_max: choices.one_of(&[1, 2, usize::MAX]),
        wrong: choices.chance(80).then(|| (choices.index(3), wrong)),
    }
}
