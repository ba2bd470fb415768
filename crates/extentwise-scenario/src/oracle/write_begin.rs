//! `write_begin` and its commit, one block at a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::result::{Action, WriteBeginError, WriteBeginErrorKind, WriteBeginResult};
use crate::{BufferFlag, BufferFlags, MapAnswer, WriteBeginScenario};

/// Decides a `write_begin` scenario, block by block.
///
/// # Panics
///
/// May panic on a scenario that does not pass its `check`.
#[must_use]
pub fn write_begin(scenario: &WriteBeginScenario) -> WriteBeginResult {
    let mut write = Write::new(scenario);
    let error = write.prepare();
    let committed = match (error, scenario.copied) {
        (Some(_), _) => {
            // V6: over the whole write.
            write.zero_new(scenario.from);
            None
        }
        (None, None) => None,
        (None, Some(copied)) => Some(write.commit(copied)),
    };
    write.into_result(error, committed)
}

struct Write<'s> {
    scenario: &'s WriteBeginScenario,
    answers: BTreeMap<u64, MapAnswer>,
    blocks: Vec<Block>,
    folio_uptodate: bool,
    actions: Vec<Action>,
}

#[derive(Clone)]
struct Block {
    index: u64,
    /// `[start, end)` in the folio.
    start: u64,
    end: u64,
    flags: BufferFlags,
    /// This write made it NEW.
    made_new: bool,
}

impl<'s> Write<'s> {
    fn new(scenario: &'s WriteBeginScenario) -> Self {
        let blocks = (0..).zip(&scenario.buffers).map(|(index, &flags)| Block {
            index,
            start: index * scenario.block_size,
            end: (index + 1) * scenario.block_size,
            flags,
            made_new: false,
        });
        Self {
            scenario,
            answers: scenario
                .map
                .iter()
                .map(|mapping| (mapping.block, mapping.result))
                .collect(),
            blocks: blocks.collect(),
            folio_uptodate: scenario.uptodate,
            actions: Vec::new(),
        }
    }

    /// V1, V3-V5: the blocks of the write in order, then the reads.
    fn prepare(&mut self) -> Option<WriteBeginError> {
        let mut map_error = None;
        let mut reads = Vec::new();
        for at in self.met_by(self.scenario.from, self.scenario.to) {
            let mut block = self.blocks[at].clone();
            let go_on = self.prepare_block(&mut block, &mut reads);
            self.blocks[at] = block;
            if !go_on {
                map_error = Some(error(WriteBeginErrorKind::Map, at));
                break;
            }
        }
        // A mapping error wins over a failed read.
        map_error.or(self.end_reads(&reads))
    }

    /// Answers false when mapping failed.
    fn prepare_block(&mut self, block: &mut Block, reads: &mut Vec<usize>) -> bool {
        let stale_new = block.flags.contains(BufferFlag::New);
        block.flags.remove(BufferFlag::New);
        if !block.flags.contains(BufferFlag::Mapped) {
            let answer = self.answer(block.index);
            self.actions.push(Action::Map {
                block: block.index,
                result: answer,
            });
            if answer == MapAnswer::Error {
                return false;
            }
            block.replace_mapping(answer);
        }
        if block.made_new {
            if self.folio_uptodate {
                block.flags.insert(BufferFlag::Uptodate);
            } else if !block.flags.contains(BufferFlag::Uptodate) {
                self.zero_outside(block);
            }
            return true;
        }
        let covered = self.scenario.from <= block.start && block.end <= self.scenario.to;
        if self.folio_uptodate || block.flags.contains(BufferFlag::Uptodate) || covered {
            return true;
        }
        let no_data_on_device = stale_new
            || block.flags.contains(BufferFlag::Delay)
            || block.flags.contains(BufferFlag::Unwritten);
        if no_data_on_device {
            self.zero_outside(block);
        } else {
            self.actions.push(Action::Read { block: block.index });
            reads.push(to_usize(block.index));
        }
        true
    }

    /// V5, V10: every read is waited for; the lowest that failed is named.
    fn end_reads(&mut self, reads: &[usize]) -> Option<WriteBeginError> {
        let fail: BTreeSet<u64> = self.scenario.fail_read.iter().copied().collect();
        let mut first_error = None;
        for &at in reads {
            if fail.contains(&self.blocks[at].index) {
                first_error.get_or_insert(error(WriteBeginErrorKind::Read, at));
            } else {
                self.blocks[at].flags.insert(BufferFlag::Uptodate);
            }
        }
        first_error
    }

    /// V8, V9; answers how much was committed.
    fn commit(&mut self, copied: u64) -> u64 {
        let (from, to) = (self.scenario.from, self.scenario.to);
        let copied_end = from + copied;
        let short = copied_end < to;
        let committed = if short && !self.folio_uptodate {
            for at in self.met_by(from, copied_end) {
                if self.blocks[at].flags.contains(BufferFlag::Uptodate) {
                    self.blocks[at].flags.insert(BufferFlag::Dirty);
                }
            }
            self.zero_new(from);
            0
        } else {
            for at in self.met_by(from, copied_end) {
                self.blocks[at].flags.insert(BufferFlag::Uptodate);
                self.blocks[at].flags.insert(BufferFlag::Dirty);
            }
            self.zero_new(copied_end);
            copied
        };
        for at in self.met_by(from, to) {
            self.blocks[at].flags.remove(BufferFlag::New);
        }
        self.folio_uptodate |= self
            .blocks
            .iter()
            .all(|block| block.flags.contains(BufferFlag::Uptodate));
        committed
    }

    /// V6 over `[start, to)`: what this write made NEW there holds zeroes, not
    /// whatever was in memory.
    fn zero_new(&mut self, start: u64) {
        let to = self.scenario.to;
        for at in self.met_by(start, to) {
            let block = &mut self.blocks[at];
            if !block.made_new {
                continue;
            }
            if !self.folio_uptodate && !block.flags.contains(BufferFlag::Uptodate) {
                self.actions.push(Action::Zero {
                    range: [block.start.max(start), block.end.min(to)],
                });
                block.flags.insert(BufferFlag::Uptodate);
            }
            block.flags.remove(BufferFlag::New);
            block.flags.insert(BufferFlag::Dirty);
        }
    }

    /// The parts of the block outside the write, the head before the tail.
    fn zero_outside(&mut self, block: &Block) {
        let head = [block.start, self.scenario.from.min(block.end)];
        let tail = [self.scenario.to.max(block.start), block.end];
        for range in [head, tail] {
            if range[0] < range[1] {
                self.actions.push(Action::Zero { range });
            }
        }
    }

    fn answer(&self, block: u64) -> MapAnswer {
        *self
            .answers
            .get(&block)
            .unwrap_or(&self.scenario.default_map)
    }

    /// The blocks that `[start, end)` of the folio meets, as indices.
    fn met_by(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        if start >= end {
            return 0..0;
        }
        let block_size = self.scenario.block_size;
        to_usize(start / block_size)..to_usize(end.div_ceil(block_size))
    }

    fn into_result(
        self,
        error: Option<WriteBeginError>,
        committed: Option<u64>,
    ) -> WriteBeginResult {
        let mut buffers: Vec<BufferFlags> = self.blocks.iter().map(|block| block.flags).collect();
        if self.folio_uptodate {
            // V2: every block of an uptodate folio counts as uptodate.
            for flags in &mut buffers {
                flags.insert(BufferFlag::Uptodate);
            }
        }
        WriteBeginResult {
            name: self.scenario.name.clone(),
            actions: self.actions,
            error,
            committed,
            buffers,
            folio_uptodate: self.folio_uptodate,
        }
    }
}

impl Block {
    /// The answer replaces MAPPED, NEW, DELAY and UNWRITTEN.
    fn replace_mapping(&mut self, answer: MapAnswer) {
        let of_answer: &[BufferFlag] = match answer {
            MapAnswer::Mapped => &[BufferFlag::Mapped],
            MapAnswer::New => &[BufferFlag::Mapped, BufferFlag::New],
            MapAnswer::Delay => &[BufferFlag::Mapped, BufferFlag::New, BufferFlag::Delay],
            MapAnswer::Unwritten => &[BufferFlag::Mapped, BufferFlag::New, BufferFlag::Unwritten],
            MapAnswer::Error => &[],
        };
        for flag in [
            BufferFlag::Mapped,
            BufferFlag::New,
            BufferFlag::Delay,
            BufferFlag::Unwritten,
        ] {
            self.flags.remove(flag);
        }
        for &flag in of_answer {
            self.flags.insert(flag);
        }
        self.made_new = self.flags.contains(BufferFlag::New);
    }
}

fn error(kind: WriteBeginErrorKind, at: usize) -> WriteBeginError {
    WriteBeginError {
        kind,
        block: at as u64,
    }
}

fn to_usize(index: u64) -> usize {
    usize::try_from(index).expect("the folio's blocks are in memory")
}
