//! What is shown of an `extent_buffer` scenario.

use std::cmp::Ordering;

use super::words::{bytes, length, printable, span_of};
use super::{Glyph, Picture, Row, Section, Strip};
use crate::extent_buffer::to_hex;
use crate::result::{BufferValue, ExtentBufferResult};
use crate::{Bits, BufferOp, ExtentBufferScenario, Move};

/// Columns that the block is shown in.
const COLUMNS: u64 = 64;

pub(super) fn picture(scenario: &ExtentBufferScenario, result: &ExtentBufferResult) -> Picture {
    let scene = Scene { scenario, result };
    let steps = scenario.ops.iter().zip(&result.results);
    Picture {
        title: printable(&scenario.name),
        facts: scene.facts(),
        strips: vec![scene.strip()],
        sections: vec![
            Section::new(
                "operations",
                steps.map(|(op, value)| format!("{:<10} {}", op.name(), step(op, value))),
            ),
            Section::new("outcome", scene.outcome().into_iter()),
        ],
    }
}

struct Scene<'a> {
    scenario: &'a ExtentBufferScenario,
    result: &'a ExtentBufferResult,
}

impl Scene<'_> {
    fn facts(&self) -> Vec<String> {
        let scenario = self.scenario;
        let backing = scenario.backing.name();
        vec![format!(
            "extent_buffer, {} at logical address {}, {backing}",
            length(scenario.node_size),
            bytes(scenario.start)
        )]
    }

    /// Pages of the block, or the one that it shares.
    fn pages(&self) -> u64 {
        self.scenario.node_size.div_ceil(self.scenario.page_size)
    }

    fn strip(&self) -> Strip {
        let scenario = self.scenario;
        let page = length(scenario.page_size);
        let share = scenario.page_size / scenario.node_size;
        let place = match (self.pages(), share) {
            (1, 0 | 1) => format!("one page of {page}"),
            (1, _) => {
                let number = scenario.start % scenario.page_size / scenario.node_size + 1;
                format!("number {number} of {share} in a page of {page}")
            }
            (pages, _) => format!("{pages} pages of {page}"),
        };
        let column = scenario.node_size / COLUMNS;
        Strip {
            caption: format!("block: {place}, {} a column", length(column)),
            rows: vec![
                self.row("pages", |row| {
                    for page in 0..self.pages() {
                        let index = usize::try_from(page).unwrap_or(0);
                        let start = page.saturating_mul(scenario.page_size);
                        row.paint(
                            start,
                            scenario.page_size,
                            Glyph::Extent(index),
                            Glyph::Nothing,
                        );
                    }
                }),
                self.row("read", |row| {
                    for (start, len) in self.touched(read_by) {
                        row.paint(start, len, Glyph::Read, Glyph::Read);
                    }
                }),
                self.row("written", |row| {
                    for (start, len) in self.touched(written_by) {
                        row.paint(start, len, Glyph::InWrite, Glyph::PartOfWrite);
                    }
                }),
            ],
            marker: None,
        }
    }

    fn row(&self, label: &'static str, paint: impl FnOnce(&mut Columns)) -> Row {
        let mut columns = Columns {
            width: (self.scenario.node_size / COLUMNS).max(1),
            cells: vec![Glyph::Nothing; usize::try_from(COLUMNS).unwrap_or(0)],
        };
        paint(&mut columns);
        Row {
            label,
            cells: columns.cells,
        }
    }

    /// The bytes that those operations touch that were not refused.
    fn touched(
        &self,
        by: impl Fn(&BufferOp, u64) -> Option<(u64, u64)>,
    ) -> impl Iterator<Item = (u64, u64)> {
        let steps = self.scenario.ops.iter().zip(&self.result.results);
        let done = steps.filter(|(_, value)| **value != BufferValue::OutOfRange);
        done.filter_map(move |(op, _)| by(op, self.scenario.node_size))
    }

    fn outcome(&self) -> Vec<String> {
        let values = self.result.results.iter();
        let refused = values
            .filter(|value| **value == BufferValue::OutOfRange)
            .count();
        let mut outcome = match refused {
            0 => Vec::new(),
            1 => vec!["1 operation leaves the block: refused, nothing was touched".to_owned()],
            many => vec![format!(
                "{many} operations leave the block: refused, nothing was touched"
            )],
        };
        outcome.push(format!("sha256 of the block {}", self.result.sha256));
        if self.scenario.node_size < self.scenario.page_size {
            outcome.push(if self.result.neighbours_intact {
                "the other blocks of the page are as they were".to_owned()
            } else {
                "other blocks of the page were CHANGED".to_owned()
            });
        }
        outcome
    }
}

fn read_by(op: &BufferOp, node_size: u64) -> Option<(u64, u64)> {
    match *op {
        BufferOp::Read { offset, len } => Some((offset, len)),
        BufferOp::Compare { offset, ref bytes } => Some((offset, bytes.len() as u64)),
        BufferOp::Copy(Move { src, len, .. }) | BufferOp::Move(Move { src, len, .. }) => {
            Some((src, len))
        }
        BufferOp::Get { offset, width } => Some((offset, width.bytes())),
        BufferOp::TestBit { offset, bit } => Some((offset.saturating_add(bit / 8), 1)),
        BufferOp::Csum(_) => Some((32, node_size.saturating_sub(32))),
        BufferOp::Write { .. }
        | BufferOp::Fill { .. }
        | BufferOp::Set { .. }
        | BufferOp::SetBits(_)
        | BufferOp::ClearBits(_) => None,
    }
}

fn written_by(op: &BufferOp, _: u64) -> Option<(u64, u64)> {
    match *op {
        BufferOp::Write { offset, ref bytes } => Some((offset, bytes.len() as u64)),
        BufferOp::Fill { offset, len, .. } => Some((offset, len)),
        BufferOp::Copy(Move { dst, len, .. }) | BufferOp::Move(Move { dst, len, .. }) => {
            Some((dst, len))
        }
        BufferOp::Set { offset, width, .. } => Some((offset, width.bytes())),
        BufferOp::SetBits(Bits { offset, bit, len })
        | BufferOp::ClearBits(Bits { offset, bit, len }) => {
            let into = bit % 8;
            let len = into.saturating_add(len).div_ceil(8);
            Some((offset.saturating_add(bit / 8), len))
        }
        BufferOp::Read { .. }
        | BufferOp::Compare { .. }
        | BufferOp::Get { .. }
        | BufferOp::TestBit { .. }
        | BufferOp::Csum(_) => None,
    }
}

/// The columns of one row.
struct Columns {
    width: u64,
    cells: Vec<Glyph>,
}

impl Columns {
    /// Paints what `[start, start + len)` covers, in whole or in part.
    fn paint(&mut self, start: u64, len: u64, whole: Glyph, part: Glyph) {
        let end = start.saturating_add(len);
        for (index, cell) in (0..).zip(&mut self.cells) {
            let column = index * self.width..(index + 1) * self.width;
            if start <= column.start && column.end <= end {
                *cell = whole.max(*cell);
            } else if start < column.end && column.start < end {
                *cell = part.max(*cell);
            }
        }
    }
}

/// What an operation was told, and what it answered.
fn step(op: &BufferOp, value: &BufferValue) -> String {
    let answer = match value {
        BufferValue::OutOfRange => "leaves the block, refused".to_owned(),
        BufferValue::Nothing => "done".to_owned(),
        BufferValue::Text(text) => shortened(text),
        BufferValue::Bit(bit) => bit.to_string(),
        BufferValue::Order(order) => match order.cmp(&0) {
            Ordering::Less => "the block's are less".to_owned(),
            Ordering::Equal => "equal".to_owned(),
            Ordering::Greater => "the block's are greater".to_owned(),
        },
    };
    let what = match *op {
        BufferOp::Read { offset, len } => span_of(offset, len),
        BufferOp::Write { offset, ref bytes } | BufferOp::Compare { offset, ref bytes } => {
            let place = span_of(offset, bytes.len() as u64);
            format!("{place} with {}", shortened(&to_hex(bytes)))
        }
        BufferOp::Fill { offset, len, byte } => {
            format!("{} with {byte:02x}", span_of(offset, len))
        }
        BufferOp::Copy(Move { dst, src, len }) | BufferOp::Move(Move { dst, src, len }) => {
            format!("{} to {}", span_of(src, len), bytes(dst))
        }
        BufferOp::Get { offset, width } => span_of(offset, width.bytes()),
        BufferOp::Set {
            offset,
            width,
            value,
        } => format!("{} to {value}", span_of(offset, width.bytes())),
        BufferOp::TestBit { offset, bit } => format!("bit {bit} from {}", bytes(offset)),
        BufferOp::SetBits(Bits { offset, bit, len })
        | BufferOp::ClearBits(Bits { offset, bit, len }) => {
            format!("{len} bits from bit {bit} from {}", bytes(offset))
        }
        BufferOp::Csum(algorithm) => algorithm.name().to_owned(),
    };
    format!("{what}: {answer}")
}

/// The first digits of many.
fn shortened(digits: &str) -> String {
    const DIGITS_MAX: usize = 64;
    match digits.get(..DIGITS_MAX) {
        Some(first) if digits.len() > DIGITS_MAX => {
            format!("{first}... ({} bytes)", digits.len() / 2)
        }
        _ if digits.is_empty() => "no bytes".to_owned(),
        _ => digits.to_owned(),
    }
}
