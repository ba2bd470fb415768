//! Pictures as one self-contained SVG document.

use std::fmt::{self, Write};

use super::{Glyph, Picture, Row, Strip};

/// Draws the pictures below each other.
#[must_use]
pub fn document(pictures: &[Picture]) -> String {
    let mut page = Page::default();
    for picture in pictures {
        // Writing to a String cannot fail.
        let _ = page.picture(picture);
    }
    page.finish()
}

const MARGIN: usize = 24;
const LINE_HEIGHT: usize = 18;
/// Of the 13 px monospace face, rounded up.
const CHAR_WIDTH: usize = 8;
const LABEL_WIDTH: usize = 84;
const CELL_HEIGHT: usize = 18;
const CELL_WIDTH_MAX: usize = 20;
const STRIP_WIDTH_MAX: usize = 1000;
const INDENT: usize = 16;

/// A page that grows downwards.
#[derive(Default)]
struct Page {
    body: String,
    width: usize,
    height: usize,
}

impl Page {
    fn picture(&mut self, picture: &Picture) -> fmt::Result {
        self.skip(MARGIN);
        self.text(MARGIN, "title", &picture.title)?;
        for fact in &picture.facts {
            self.text(MARGIN, "soft", fact)?;
        }
        for strip in &picture.strips {
            self.skip(LINE_HEIGHT / 2);
            self.strip(strip)?;
        }
        self.legend(&picture.legend())?;
        for section in &picture.sections {
            self.skip(LINE_HEIGHT / 2);
            self.text(MARGIN, "head", section.title)?;
            for line in &section.lines {
                self.text(MARGIN + INDENT, "", line)?;
            }
        }
        Ok(())
    }

    fn strip(&mut self, strip: &Strip) -> fmt::Result {
        self.text(MARGIN, "head", &strip.caption)?;
        let columns = strip
            .rows
            .iter()
            .map(|row| row.cells.len())
            .max()
            .unwrap_or(0);
        let cell_width = (STRIP_WIDTH_MAX / columns.max(1)).min(CELL_WIDTH_MAX);
        for row in &strip.rows {
            self.row(row, cell_width)?;
        }
        if let Some(marker) = &strip.marker {
            let x = MARGIN + LABEL_WIDTH + marker.column * cell_width;
            let (top, bottom) = (
                self.height - strip.rows.len() * CELL_HEIGHT,
                self.height + LINE_HEIGHT - 4,
            );
            writeln!(
                self.body,
                r##"<path d="M{x} {top}V{bottom}" stroke="#c0392b" stroke-width="2"/>"##
            )?;
            self.text(x + 6, "eof", &marker.text)?;
        }
        Ok(())
    }

    fn row(&mut self, row: &Row, cell_width: usize) -> fmt::Result {
        let y = self.height;
        let baseline = y + CELL_HEIGHT - 5;
        writeln!(
            self.body,
            r#"<text x="{MARGIN}" y="{baseline}" class="soft">{}</text>"#,
            Escaped(row.label)
        )?;
        let mut x = MARGIN + LABEL_WIDTH;
        // Equal neighbours are one box with ticks: small files, same picture.
        for run in row.cells.chunk_by(|left, right| left == right) {
            let width = run.len() * cell_width;
            let glyph = run[0];
            writeln!(
                self.body,
                r##"<rect x="{x}" y="{y}" width="{width}" height="{}" fill="{}" stroke="#fff"/>"##,
                CELL_HEIGHT - 2,
                glyph.colour()
            )?;
            self.ticks(x, y, cell_width, run.len())?;
            if glyph != Glyph::Nothing {
                writeln!(
                    self.body,
                    r#"<text x="{}" y="{baseline}" class="cell">{}</text>"#,
                    x + width / 2,
                    Escaped(glyph.symbol().encode_utf8(&mut [0; 4]))
                )?;
            }
            x += width;
        }
        self.widen(x);
        self.skip(CELL_HEIGHT);
        Ok(())
    }

    /// The borders between the blocks of a box.
    fn ticks(&mut self, x: usize, y: usize, cell_width: usize, cells: usize) -> fmt::Result {
        if cells < 2 {
            return Ok(());
        }
        self.body.push_str(r#"<path d=""#);
        for cell in 1..cells {
            write!(
                self.body,
                "M{} {y}v{}",
                x + cell * cell_width,
                CELL_HEIGHT - 2
            )?;
        }
        writeln!(self.body, r##"" stroke="#fff" stroke-opacity=".7"/>"##)
    }

    fn legend(&mut self, glyphs: &[Glyph]) -> fmt::Result {
        if glyphs.is_empty() {
            return Ok(());
        }
        self.skip(LINE_HEIGHT / 2);
        let mut x = MARGIN;
        let (y, baseline) = (self.height, self.height + CELL_HEIGHT - 5);
        for glyph in glyphs {
            let meaning = glyph.meaning();
            writeln!(
                self.body,
                r#"<rect x="{x}" y="{y}" width="16" height="16" fill="{}"/><text x="{}" y="{baseline}" class="cell">{}</text><text x="{}" y="{baseline}" class="soft">{meaning}</text>"#,
                glyph.colour(),
                x + 8,
                Escaped(glyph.symbol().encode_utf8(&mut [0; 4])),
                x + 22
            )?;
            x += 22 + (meaning.len() + 2) * CHAR_WIDTH;
        }
        self.widen(x);
        self.skip(CELL_HEIGHT);
        Ok(())
    }

    fn text(&mut self, x: usize, class: &str, text: &str) -> fmt::Result {
        let baseline = self.height + LINE_HEIGHT - 5;
        write!(self.body, r#"<text x="{x}" y="{baseline}""#)?;
        if !class.is_empty() {
            write!(self.body, r#" class="{class}""#)?;
        }
        writeln!(self.body, ">{}</text>", Escaped(text))?;
        self.widen(x + text.chars().count() * CHAR_WIDTH);
        self.skip(LINE_HEIGHT);
        Ok(())
    }

    fn widen(&mut self, right: usize) {
        self.width = self.width.max(right);
    }

    fn skip(&mut self, height: usize) {
        self.height += height;
    }

    fn finish(self) -> String {
        let (width, height) = (self.width + MARGIN, self.height + MARGIN);
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<style>
text {{ font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #222; white-space: pre }}
.title {{ font-weight: bold; font-size: 15px }} .head {{ font-weight: bold }} .soft {{ fill: #666 }}
.cell {{ text-anchor: middle; font-size: 11px }} .eof {{ fill: #c0392b }}
</style>
<rect width="100%" height="100%" fill="white"/>
{}</svg>
"#,
            self.body
        )
    }
}

/// Text as XML character data; what XML 1.0 cannot hold becomes U+FFFD.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            match char {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\0'..=' ' | '\u{fffe}' | '\u{ffff}' if char != ' ' => f.write_char('\u{fffd}')?,
                _ => f.write_char(char)?,
            }
        }
        Ok(())
    }
}
