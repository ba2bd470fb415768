//! What is shown of a writeback scenario.

use super::glyph::extent_name;
use super::words::{bytes, length, listed, printable, span, span_of};
use super::{Glyph, Marker, Picture, Row, Section, Strip};
use super::{blocks_per_column, extent_of_folio, squeeze};
use crate::result::{
    BioResult, Event, OrderedFlag, OrderedResult, WritebackErrorKind, WritebackResult,
};
use crate::{BioLimits, FolioPass, OrderedKind, WritebackScenario};

pub(super) fn picture(scenario: &WritebackScenario, result: &WritebackResult) -> Picture {
    let scene = Scene { scenario, result };
    Picture {
        title: printable(&scenario.name),
        facts: scene.facts(),
        strips: (0..scenario.folios.len())
            .map(|index| scene.strip(index))
            .collect(),
        sections: vec![
            Section::new("pass", result.events.iter().map(|event| scene.event(event))),
            Section::new(
                "bios",
                result
                    .bios
                    .iter()
                    .enumerate()
                    .map(|(index, bio)| scene.bio(index + 1, bio)),
            ),
            Section::new(
                "ordered extents",
                result
                    .ordered
                    .iter()
                    .enumerate()
                    .map(|(index, ordered)| scene.ordered(index, ordered)),
            ),
            Section::new("errors", scene.errors().into_iter()),
        ],
    }
}

struct Scene<'a> {
    scenario: &'a WritebackScenario,
    result: &'a WritebackResult,
}

impl Scene<'_> {
    fn facts(&self) -> Vec<String> {
        let scenario = self.scenario;
        let mut facts = vec![format!(
            "writeback, {} blocks, file size {}",
            bytes(scenario.block_size),
            bytes(scenario.i_size)
        )];
        if scenario.bio != BioLimits::default() {
            facts.push(format!(
                "a bio takes {} and {} segments",
                bytes(scenario.bio.max_bytes),
                scenario.bio.max_segments
            ));
        }
        if !scenario.refuse.is_empty() {
            facts.push(format!(
                "the device refuses attempt {} (counted from 0)",
                listed(scenario.refuse.iter().map(u64::to_string), ", ")
            ));
        }
        if !scenario.fail_io.is_empty() {
            let ranges = scenario.fail_io.iter();
            facts.push(format!(
                "I/O fails on disk {}",
                listed(ranges.map(|range| span(range.start, range.end)), ", ")
            ));
        }
        if !scenario.complete {
            facts.push("no bio completes".to_owned());
        }
        facts
    }

    fn strip(&self, index: usize) -> Strip {
        let folio = &self.scenario.folios[index];
        let mut blocks = Blocks::new(folio, self.scenario.block_size);
        let mut rows = Vec::new();

        blocks.paint_all(&folio.dirty, Glyph::Dirty);
        for run in &folio.submit {
            let (start, end) = (
                run.start.max(folio.range.start),
                run.end.min(folio.range.end),
            );
            blocks.paint(start, end, Glyph::ToWrite);
        }
        rows.push(blocks.take("before"));

        for (at, ordered) in self.result.ordered.iter().enumerate() {
            let end = ordered.file_offset.saturating_add(ordered.num_bytes);
            blocks.paint(ordered.file_offset, end, Glyph::Extent(at));
        }
        rows.push(blocks.take("OEs"));

        for event in &self.result.events {
            let (glyph, start, len) = match *event {
                Event::Zero { .. } => continue,
                Event::Submit {
                    file_offset, len, ..
                } => (Glyph::Submitted, file_offset, len),
                Event::BeyondEof { file_offset, len } => (Glyph::BeyondEof, file_offset, len),
                Event::MissingOrdered { file_offset, len } => {
                    (Glyph::MissingOrdered, file_offset, len)
                }
                Event::Refused { file_offset, len } => (Glyph::Refused, file_offset, len),
            };
            blocks.paint(start, start.saturating_add(len), glyph);
        }
        rows.push(blocks.take("pass"));

        if let Some(after) = self.result.folios.get(index) {
            for &[start, end] in &after.dirty {
                blocks.paint(start, end, Glyph::Dirty);
            }
            for &[start, end] in &after.writeback {
                blocks.paint(start, end, Glyph::InWriteback);
            }
        }
        rows.push(blocks.take("after"));

        Strip {
            caption: self.caption(folio),
            rows,
            marker: self.marker(folio),
        }
    }

    fn caption(&self, folio: &FolioPass) -> String {
        let mut parts = vec![format!(
            "folio at {}: {}",
            bytes(folio.pos),
            extent_of_folio(folio.size, self.scenario.block_size)
        )];
        let end = folio.pos.saturating_add(folio.size);
        if folio.range != (folio.pos..end) {
            let covered = span(folio.range.start, folio.range.end);
            parts.push(format!("the pass covers {covered}"));
        }
        if self.scenario.i_size <= folio.pos {
            parts.push("all of it past EOF".to_owned());
        }
        parts.join("; ")
    }

    /// Where the file ends, if it does in this folio.
    fn marker(&self, folio: &FolioPass) -> Option<Marker> {
        let i_size = self.scenario.i_size;
        let into_folio = i_size.checked_sub(folio.pos).filter(|&into| into > 0)?;
        if into_folio > folio.size {
            return None;
        }
        let per_column = blocks_per_column(folio.size / self.scenario.block_size);
        let block_size = self.scenario.block_size;
        let text = if into_folio == folio.size {
            format!("EOF {}, where the folio ends", bytes(i_size))
        } else if into_folio.is_multiple_of(block_size) {
            format!(
                "EOF {}, from this block on nothing is written",
                bytes(i_size)
            )
        } else {
            format!("EOF {}, inside this block", bytes(i_size))
        };
        Some(Marker {
            column: usize::try_from(into_folio / block_size / per_column).unwrap_or(0),
            text,
        })
    }

    fn event(&self, event: &Event) -> String {
        match *event {
            Event::Zero { file_offset, len } => format!(
                "zero      {}: behind the size, in the block it ends in",
                span_of(file_offset, len)
            ),
            Event::Submit {
                file_offset,
                len,
                disk_bytenr,
            } => format!(
                "submit    {} of {} to disk {}",
                span_of(file_offset, len),
                self.names_in(file_offset, len),
                bytes(disk_bytenr)
            ),
            Event::BeyondEof { file_offset, len } => {
                let span = span_of(file_offset, len);
                match self.names_in(file_offset, len).as_str() {
                    "" => format!("past EOF  {span}: no I/O, no OE there"),
                    names => format!("past EOF  {span}: no I/O, truncates {names}"),
                }
            }
            Event::MissingOrdered { file_offset, len } => format!(
                "missing   {}: no OE says where it goes; cleaned, with an error",
                span_of(file_offset, len)
            ),
            Event::Refused { file_offset, len } => format!(
                "refused   {} of {}: the device took none of it",
                span_of(file_offset, len),
                self.names_in(file_offset, len)
            ),
        }
    }

    /// The names of the ordered extents that the range meets.
    fn names_in(&self, file_offset: u64, len: u64) -> String {
        let end = file_offset.saturating_add(len);
        // Extents are in file order and disjoint.
        let ordered = &self.result.ordered;
        let first = ordered.partition_point(|extent| {
            extent.file_offset.saturating_add(extent.num_bytes) <= file_offset
        });
        let behind = ordered.partition_point(|extent| extent.file_offset < end);
        listed((first..behind.max(first)).map(extent_name), ", ")
    }

    fn bio(&self, number: usize, bio: &BioResult) -> String {
        let segments = bio.segments.iter();
        let valid = if bio.valid_len < bio.len {
            format!(", {} of it valid", length(bio.valid_len))
        } else {
            String::new()
        };
        format!(
            "{number:<3} {} to disk {}{valid}: {}; {}",
            bytes(bio.len),
            bytes(bio.disk_bytenr),
            listed(
                segments.map(|&[file_offset, len]| span_of(file_offset, len)),
                " + "
            ),
            self.end_of_bio(bio)
        )
    }

    fn end_of_bio(&self, bio: &BioResult) -> &'static str {
        let end = bio.disk_bytenr.saturating_add(bio.len);
        let fails = self
            .scenario
            .fail_io
            .iter()
            .any(|range| range.start < end && bio.disk_bytenr < range.end);
        match (self.scenario.complete, fails) {
            (false, _) => "in flight",
            (true, true) => "failed",
            (true, false) => "completed",
        }
    }

    fn ordered(&self, index: usize, ordered: &OrderedResult) -> String {
        let extent = self
            .scenario
            .ordered
            .iter()
            .find(|extent| extent.file_offset == ordered.file_offset);
        let (disk, kind) = extent.map_or((String::new(), OrderedKind::Plain), |extent| {
            let data = extent.disk_bytenr.saturating_add(extent.offset);
            (format!(" on disk {}", bytes(data)), extent.kind)
        });
        let kind_name = kind
            .flag()
            .map_or(String::new(), |flag| format!(", {flag}"));
        format!(
            "{:<3} {}{disk}{kind_name}: {}",
            extent_name(index),
            span_of(ordered.file_offset, ordered.num_bytes),
            fate(ordered, kind)
        )
    }

    fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if let Some(error) = self.result.error {
            let at = bytes(error.file_offset);
            errors.push(match error.kind {
                WritebackErrorKind::MissingOrdered => format!("the first: no OE at {at}"),
                WritebackErrorKind::Refused => format!("the first: the device refused {at}"),
            });
        }
        if self.result.mapping_error {
            errors.push("the file remembers an error for the next sync".to_owned());
        }
        for &[file_offset, len] in &self.result.double_finish {
            errors.push(format!("finished twice: {}", span_of(file_offset, len)));
        }
        errors
    }
}

/// What became of an ordered extent, in plain words.
fn fate(ordered: &OrderedResult, kind: OrderedKind) -> String {
    let has = |flag| ordered.flags.contains(&flag);
    let truncated = if has(OrderedFlag::Truncated) {
        let at = ordered.file_offset.saturating_add(ordered.truncated_len);
        format!("truncated at {}", bytes(at))
    } else {
        String::new()
    };
    let Some(outcome) = ordered.outcome else {
        let mut words = vec![format!("waits for {}", length(ordered.bytes_left))];
        if has(OrderedFlag::IoError) {
            words.push("failed in part".to_owned());
        }
        if !truncated.is_empty() {
            words.push(truncated);
        }
        return words.join(", ");
    };
    let why = match (has(OrderedFlag::IoError), truncated.is_empty()) {
        (true, _) => "failed",
        (false, false) => &truncated,
        (false, true) => "done",
    };
    if let Some([_, len, disk]) = outcome.insert {
        return format!("{why}, kept {} at disk {}", bytes(len), bytes(disk));
    }
    if let Some([_, len, disk]) = outcome.convert {
        return format!(
            "{why}, {} at disk {} now count as written",
            bytes(len),
            bytes(disk)
        );
    }
    if let Some([disk, len]) = outcome.release {
        return format!(
            "{why}, its {} at disk {} are released",
            bytes(len),
            bytes(disk)
        );
    }
    match kind {
        OrderedKind::Nocow => format!("{why}, the extent it lies in stands"),
        OrderedKind::Prealloc => format!("{why}, the extent stays preallocated"),
        OrderedKind::Plain => why.to_owned(),
    }
}

/// The blocks of one folio, to be painted for one row after the other.
struct Blocks {
    pos: u64,
    block_size: u64,
    cells: Vec<Glyph>,
}

impl Blocks {
    fn new(folio: &FolioPass, block_size: u64) -> Self {
        let blocks = usize::try_from(folio.size / block_size).unwrap_or(0);
        Self {
            pos: folio.pos,
            block_size,
            cells: vec![Glyph::Nothing; blocks],
        }
    }

    fn paint_all(&mut self, ranges: &[std::ops::Range<u64>], glyph: Glyph) {
        for range in ranges {
            self.paint(range.start, range.end, glyph);
        }
    }

    /// Paints what of `[start, end)` lies in the folio.
    fn paint(&mut self, start: u64, end: u64, glyph: Glyph) {
        let index = |offset: u64| {
            let block = offset.saturating_sub(self.pos) / self.block_size;
            usize::try_from(block)
                .unwrap_or(usize::MAX)
                .min(self.cells.len())
        };
        let (first, behind) = (index(start), index(end));
        if first < behind {
            self.cells[first..behind].fill(glyph);
        }
    }

    /// The row as painted; what follows starts on a clean one.
    fn take(&mut self, label: &'static str) -> Row {
        let per_column = blocks_per_column(self.cells.len() as u64);
        let cells = squeeze(&self.cells, per_column);
        self.cells.fill(Glyph::Nothing);
        Row { label, cells }
    }
}
