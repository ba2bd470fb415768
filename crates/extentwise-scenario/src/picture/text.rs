//! A picture as plain text.

use super::{Glyph, Picture, Strip};

pub(super) fn render(picture: &Picture) -> String {
    let mut lines = vec![picture.title.clone()];
    lines.extend(picture.facts.iter().map(|fact| format!("  {fact}")));
    for strip in &picture.strips {
        lines.push(String::new());
        push_strip(&mut lines, strip);
    }
    let legend: Vec<String> = picture
        .legend()
        .into_iter()
        .map(|glyph| format!("{} {}", glyph.symbol(), glyph.meaning()))
        .collect();
    if !legend.is_empty() {
        lines.push(String::new());
        lines.push(format!("  {}", legend.join("   ")));
    }
    for section in &picture.sections {
        lines.push(String::new());
        lines.push(format!("  {}", section.title));
        lines.extend(section.lines.iter().map(|line| format!("    {line}")));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn push_strip(lines: &mut Vec<String>, strip: &Strip) {
    const LABEL_WIDTH: usize = 10;
    lines.push(format!("  {}", strip.caption));
    for row in &strip.rows {
        let cells: String = row.cells.iter().copied().map(Glyph::symbol).collect();
        lines.push(format!("    {:<LABEL_WIDTH$}{cells}", row.label));
    }
    if let Some(marker) = &strip.marker {
        let indent = " ".repeat(LABEL_WIDTH + marker.column);
        lines.push(format!("    {indent}^ {}", marker.text));
    }
}
