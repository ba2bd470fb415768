//! Pictures of a scenario and its result, for people.
//!
//! A [`Picture`] is what is shown: strips of blocks and sections of sentences.
//! It is laid out as text ([`Picture::to_text`]) or as SVG
//! ([`svg::document`]), with the same content.

mod extent_buffer;
mod glyph;
pub mod svg;
mod text;
mod words;
mod write_begin;
mod writeback;

pub(crate) use glyph::Glyph;

use crate::Invalid;
use crate::result::{ExtentBufferResult, WriteBeginResult, WritebackResult};
use crate::{ExtentBufferScenario, WriteBeginScenario, WritebackScenario};

/// The most columns of a strip; longer folios share columns.
const COLUMNS_MAX: u64 = 100;
/// The most lines of a section; the rest is counted.
const LINES_MAX: usize = 200;

/// What is shown of one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    title: String,
    /// What the scenario sets.
    facts: Vec<String>,
    strips: Vec<Strip>,
    sections: Vec<Section>,
}

/// A folio as rows of columns; in each row a column is one glyph.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Strip {
    caption: String,
    rows: Vec<Row>,
    /// Points at a column, or at the end of the last one.
    marker: Option<Marker>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    label: &'static str,
    cells: Vec<Glyph>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Marker {
    column: usize,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Section {
    title: &'static str,
    lines: Vec<String>,
}

impl Picture {
    /// The picture of a writeback scenario.
    #[must_use]
    pub fn writeback(scenario: &WritebackScenario, result: &WritebackResult) -> Self {
        writeback::picture(scenario, result)
    }

    /// The picture of a `write_begin` scenario.
    #[must_use]
    pub fn write_begin(scenario: &WriteBeginScenario, result: &WriteBeginResult) -> Self {
        write_begin::picture(scenario, result)
    }

    /// The picture of an `extent_buffer` scenario.
    #[must_use]
    pub fn extent_buffer(scenario: &ExtentBufferScenario, result: &ExtentBufferResult) -> Self {
        extent_buffer::picture(scenario, result)
    }

    /// What is shown in place of a scenario that was refused.
    #[must_use]
    pub fn refused(invalid: &Invalid, line: usize) -> Self {
        Self {
            title: words::printable(invalid.name.as_deref().unwrap_or("(no name)")),
            facts: vec![words::printable(&format!(
                "line {line} is not a scenario: {invalid}"
            ))],
            strips: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// The picture as plain text.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::render(self)
    }

    /// The glyphs that need a legend, each once.
    fn legend(&self) -> Vec<Glyph> {
        let mut glyphs: Vec<Glyph> = self
            .strips
            .iter()
            .flat_map(|strip| &strip.rows)
            .flat_map(|row| row.cells.iter().copied())
            .filter(|glyph| !glyph.meaning().is_empty())
            .collect();
        glyphs.sort_unstable();
        glyphs.dedup();
        glyphs
    }
}

impl Section {
    /// A section of as many lines as fit; the others are counted only.
    fn new(title: &'static str, lines: impl ExactSizeIterator<Item = String>) -> Self {
        let more = lines.len().saturating_sub(LINES_MAX);
        let mut lines: Vec<String> = lines.take(LINES_MAX).collect();
        if more > 0 {
            lines.push(format!("... and {more} more"));
        }
        if lines.is_empty() {
            lines.push("none".to_owned());
        }
        Self { title, lines }
    }
}

/// How many blocks share a column, so that `blocks` fit.
fn blocks_per_column(blocks: u64) -> u64 {
    blocks.div_ceil(COLUMNS_MAX).next_power_of_two()
}

/// The cells of a row from those of its blocks.
fn squeeze(blocks: &[Glyph], per_column: u64) -> Vec<Glyph> {
    let per_column = usize::try_from(per_column).unwrap_or(usize::MAX);
    blocks.chunks(per_column).map(Glyph::gravest).collect()
}

/// `64 KiB, 16 blocks`, and how they are shown.
fn extent_of_folio(size: u64, block_size: u64) -> String {
    let blocks = size / block_size;
    let size = words::bytes(size);
    match (blocks, blocks_per_column(blocks)) {
        (1, _) => format!("{size}, 1 block"),
        (_, 1) => format!("{size}, {blocks} blocks"),
        (_, shared) => format!(
            "{size}, {blocks} blocks, {shared} a column: where they differ, the gravest shows"
        ),
    }
}
