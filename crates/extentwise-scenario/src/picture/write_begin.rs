//! What is shown of a `write_begin` scenario.

use super::words::{bytes, length, printable, span};
use super::{Glyph, Picture, Row, Section, Strip};
use super::{blocks_per_column, extent_of_folio, squeeze};
use crate::result::{Action, WriteBeginErrorKind, WriteBeginResult};
use crate::{BufferFlag, MapAnswer, WriteBeginScenario};

pub(super) fn picture(scenario: &WriteBeginScenario, result: &WriteBeginResult) -> Picture {
    let scene = Scene { scenario, result };
    Picture {
        title: printable(&scenario.name),
        facts: scene.facts(),
        strips: vec![scene.strip()],
        sections: vec![
            Section::new(
                "actions",
                result.actions.iter().map(|action| scene.action(action)),
            ),
            Section::new("outcome", scene.outcome().into_iter()),
        ],
    }
}

struct Scene<'a> {
    scenario: &'a WriteBeginScenario,
    result: &'a WriteBeginResult,
}

impl Scene<'_> {
    fn len(&self) -> u64 {
        self.scenario.to.saturating_sub(self.scenario.from)
    }

    fn facts(&self) -> Vec<String> {
        let scenario = self.scenario;
        let mut facts = vec![format!(
            "write_begin, {} blocks, {} to be written to {} of the folio",
            bytes(scenario.block_size),
            length(self.len()),
            span(scenario.from, scenario.to)
        )];
        facts.push(match scenario.copied {
            None => "nothing is copied yet: the write stays open".to_owned(),
            Some(copied) if copied == self.len() => "all of it is copied".to_owned(),
            Some(copied) => format!("{} of it are copied", length(copied)),
        });
        facts
    }

    fn strip(&self) -> Strip {
        let mut rows = vec![self.row("write", |block| self.part_of_write(block))];
        let actions = self.actions_by_block();
        rows.push(Row {
            label: "actions",
            cells: squeeze(&actions, self.per_column()),
        });
        for flag in [
            BufferFlag::Uptodate,
            BufferFlag::Mapped,
            BufferFlag::New,
            BufferFlag::Delay,
            BufferFlag::Unwritten,
            BufferFlag::Dirty,
        ] {
            let row = self.row(flag.name(), |block| self.change(block, flag));
            if row.cells.iter().any(|&cell| cell != Glyph::Nothing) {
                rows.push(row);
            }
        }
        let uptodate = if self.scenario.uptodate {
            "uptodate"
        } else {
            "not uptodate"
        };
        Strip {
            caption: format!(
                "folio at {}, {uptodate}: {}",
                bytes(self.scenario.pos),
                extent_of_folio(self.scenario.size, self.scenario.block_size)
            ),
            rows,
            marker: None,
        }
    }

    fn row(&self, label: &'static str, glyph: impl Fn(usize) -> Glyph) -> Row {
        let blocks: Vec<Glyph> = (0..self.scenario.buffers.len()).map(glyph).collect();
        Row {
            label,
            cells: squeeze(&blocks, self.per_column()),
        }
    }

    fn per_column(&self) -> u64 {
        blocks_per_column(self.scenario.buffers.len() as u64)
    }

    fn part_of_write(&self, block: usize) -> Glyph {
        let start = (block as u64).saturating_mul(self.scenario.block_size);
        let end = start.saturating_add(self.scenario.block_size);
        let (from, to) = (self.scenario.from, self.scenario.to);
        if from <= start && end <= to {
            Glyph::InWrite
        } else if from < end && start < to {
            Glyph::PartOfWrite
        } else {
            Glyph::Nothing
        }
    }

    /// What became of one flag. In an uptodate folio all blocks count as
    /// uptodate, before and after (V2).
    fn change(&self, block: usize, flag: BufferFlag) -> Glyph {
        let by_folio = flag == BufferFlag::Uptodate && self.scenario.uptodate;
        let before = by_folio || self.scenario.buffers[block].contains(flag);
        let after = self
            .result
            .buffers
            .get(block)
            .is_some_and(|flags| flags.contains(flag));
        match (before, after) {
            (false, false) => Glyph::Nothing,
            (false, true) => Glyph::Set,
            (true, false) => Glyph::Cleared,
            (true, true) => Glyph::Kept,
        }
    }

    /// The gravest action on each block.
    fn actions_by_block(&self) -> Vec<Glyph> {
        let mut blocks = vec![Glyph::Nothing; self.scenario.buffers.len()];
        for action in &self.result.actions {
            let (block, glyph) = match *action {
                Action::Map {
                    block,
                    result: MapAnswer::Error,
                } => (block, Glyph::Failed),
                Action::Map { block, .. } => (block, Glyph::Mapped),
                Action::Zero { range } => (range[0] / self.scenario.block_size, Glyph::Zeroed),
                Action::Read { block } if self.read_fails(block) => (block, Glyph::Failed),
                Action::Read { block } => (block, Glyph::Read),
            };
            if let Some(cell) = usize::try_from(block)
                .ok()
                .and_then(|at| blocks.get_mut(at))
            {
                *cell = glyph.max(*cell);
            }
        }
        blocks
    }

    fn read_fails(&self, block: u64) -> bool {
        self.scenario.fail_read.contains(&block)
    }

    fn action(&self, action: &Action) -> String {
        match *action {
            Action::Map { block, result } => {
                let answer = match result {
                    MapAnswer::Mapped => "mapped, the device holds its data",
                    MapAnswer::New => "new, just allocated",
                    MapAnswer::Delay => "new, reserved only",
                    MapAnswer::Unwritten => "new, allocated without data",
                    MapAnswer::Error => "error",
                };
                format!("map   block {block}: {answer}")
            }
            Action::Zero {
                range: [start, end],
            } => {
                let block = start / self.scenario.block_size;
                let which = if end <= self.scenario.from {
                    format!("block {block} in front of the write")
                } else if start >= self.scenario.to {
                    format!("block {block} behind the write")
                } else {
                    format!("new block {block}, where no data came")
                };
                format!("zero  {}: {which}", span(start, end))
            }
            Action::Read { block } => {
                let end = if self.read_fails(block) {
                    "; fails"
                } else {
                    ""
                };
                format!("read  block {block}: it is written only in part{end}")
            }
        }
    }

    fn outcome(&self) -> Vec<String> {
        let mut outcome = Vec::new();
        if let Some(error) = self.result.error {
            outcome.push(match error.kind {
                WriteBeginErrorKind::Map => format!("mapping block {} failed", error.block),
                WriteBeginErrorKind::Read => format!("reading block {} failed", error.block),
            });
        }
        outcome.push(match (self.result.committed, self.scenario.copied) {
            (Some(committed), Some(copied)) if committed < copied => format!(
                "committed {} of {} copied: a short copy into a folio that is not uptodate",
                length(committed),
                bytes(copied)
            ),
            (Some(committed), _) => {
                format!("committed {} of {}", length(committed), length(self.len()))
            }
            (None, _) if self.result.error.is_some() => "nothing is committed".to_owned(),
            (None, _) => "the write is prepared and still open".to_owned(),
        });
        outcome.push(
            match (self.scenario.uptodate, self.result.folio_uptodate) {
                (true, true) => "the folio stays uptodate",
                (false, true) => "the folio became uptodate",
                (false, false) => "the folio is not uptodate",
                (true, false) => "the folio lost uptodate",
            }
            .to_owned(),
        );
        outcome
    }
}
