//! Reads scenarios out of text: one line, or a whole file.

use serde_json::de::StrRead;
use serde_json::error::Category;
use serde_json::{Deserializer, StreamDeserializer};

use crate::json::Json;
use crate::{Invalid, Scenario};

/// Reads one scenario. The text may span lines, if it is one JSON object.
pub fn parse_line(line: &str) -> Result<Scenario, Invalid> {
    match serde_json::from_str(line) {
        Ok(json) => Scenario::from_json(&json),
        Err(error) => Err(not_json(&error, 1)),
    }
}

/// The scenarios of a whole text, in order: JSON Lines (blank lines are
/// skipped), or objects that span lines. A line that is refused does not stop
/// the lines after it.
#[must_use]
pub fn scenarios(text: &str) -> Scenarios<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if spans_lines(text) {
        let stream = Deserializer::from_str(text).into_iter();
        Scenarios(Layout::Objects {
            text,
            counted: (0, 1),
            stream,
        })
    } else {
        Scenarios(Layout::Lines(text.lines().enumerate()))
    }
}

/// One scenario of a text, or why it is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The line it starts on, counted from 1.
    pub line: usize,
    /// The scenario.
    pub scenario: Result<Scenario, Invalid>,
}

/// Iterator over the scenarios of a text; see [`scenarios`].
pub struct Scenarios<'t>(Layout<'t>);

enum Layout<'t> {
    Lines(std::iter::Enumerate<std::str::Lines<'t>>),
    Objects {
        text: &'t str,
        /// How far lines were counted, and how many.
        counted: (usize, usize),
        stream: StreamDeserializer<'t, StrRead<'t>, Json<'t>>,
    },
}

impl Iterator for Scenarios<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        match &mut self.0 {
            Layout::Lines(lines) => {
                let (index, line) =
                    lines.find(|(_, line)| !line.trim_matches(WHITE_SPACE).is_empty())?;
                let line_number = index + 1;
                let scenario = match serde_json::from_str(line) {
                    Ok(json) => Scenario::from_json(&json),
                    Err(error) => Err(not_json(&error, line_number)),
                };
                Some(Item {
                    line: line_number,
                    scenario,
                })
            }
            Layout::Objects {
                text,
                counted,
                stream,
            } => {
                let start = start_of_next(text, stream.byte_offset());
                let new_lines = text[counted.0..start].matches('\n').count();
                *counted = (start, counted.1 + new_lines);
                // The stream ends itself after its first error.
                let scenario = match stream.next()? {
                    Ok(json) => Scenario::from_json(&json),
                    Err(error) => Err(not_json(&error, 1)),
                };
                Some(Item {
                    line: counted.1,
                    scenario,
                })
            }
        }
    }
}

/// What JSON takes for white space; other spaces of Unicode are a mistake in it.
const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Whether the text is to be read as objects that span lines: its first line
/// is only the beginning of a value. If that value does not become whole
/// either, and another line looks like the start of an object, the first line
/// is a broken one of JSON Lines.
fn spans_lines(text: &str) -> bool {
    let Some(first) = text
        .lines()
        .find(|line| !line.trim_matches(WHITE_SPACE).is_empty())
    else {
        return false;
    };
    if !cut_short(first) {
        return false;
    }
    let whole = Deserializer::from_str(text)
        .into_iter::<Json<'_>>()
        .next()
        .is_some_and(|value| value.is_ok());
    let objects = text.lines().filter(|line| line.starts_with('{')).count();
    whole || objects < 2
}

fn cut_short(line: &str) -> bool {
    match serde_json::from_str::<Json<'_>>(line) {
        Ok(_) => false,
        Err(error) => error.classify() == Category::Eof,
    }
}

fn start_of_next(text: &str, offset: usize) -> usize {
    let rest = &text[offset..];
    offset + (rest.len() - rest.trim_start_matches(WHITE_SPACE).len())
}

/// `first_line` is the line of the text on which what was parsed starts.
fn not_json(error: &serde_json::Error, first_line: usize) -> Invalid {
    let line = first_line - 1 + error.line().max(1);
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let what = message.strip_suffix(&position).unwrap_or(&message);
    Invalid::new(
        "",
        format!("not JSON: {what}, at line {line} column {}", error.column()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"kind":"write_begin","name":"n","block_size":512,"folio":{"pos":0,"size":512,"uptodate":true},"from":0,"to":1}"#;

    fn lines(text: &str) -> Vec<(usize, bool)> {
        scenarios(text)
            .map(|item| (item.line, item.scenario.is_ok()))
            .collect()
    }

    fn pretty() -> String {
        let value: serde_json::Value = serde_json::from_str(GOOD).unwrap();
        serde_json::to_string_pretty(&value).unwrap()
    }

    #[test]
    fn white_space_that_json_does_not_know_is_blamed_on_its_own_line() {
        assert_eq!(lines("\n{\n}\n\x0b\n\n"), [(2, false), (4, false)]);
        assert_eq!(lines("[\n]\x0c\n"), [(1, false), (2, false)]);
    }

    #[test]
    fn json_lines_count_blank_lines_and_go_on_after_a_bad_one() {
        let text = format!("\n{GOOD}\n  \n{{\"kind\":\n{GOOD}\r\n");
        assert_eq!(lines(&text), [(2, true), (4, false), (5, true)]);
    }

    #[test]
    fn a_broken_first_line_does_not_turn_json_lines_into_one_object() {
        let text = format!("{{\"kind\":\"write_begin\"\n{GOOD}\n");
        assert_eq!(lines(&text), [(1, false), (2, true)]);
    }

    #[test]
    fn objects_may_span_lines() {
        let text = format!("\n{0}\n{0}", pretty());
        let second = 2 + pretty().lines().count();
        assert_eq!(lines(&text), [(2, true), (second, true)]);
    }

    #[test]
    fn a_broken_object_over_several_lines_is_one_error_with_its_place() {
        let text = pretty().replace("512,", "512");
        let items: Vec<Item> = scenarios(&text).collect();
        assert_eq!(items.len(), 1);
        let invalid = items[0].scenario.as_ref().unwrap_err();
        assert!(invalid.to_string().starts_with("not JSON: "), "{invalid}");
        assert!(invalid.reason.contains("at line "), "{invalid}");
    }

    #[test]
    fn an_error_in_json_lines_names_the_line_of_the_text() {
        let text = format!("{GOOD}\n{GOOD}}}\n");
        let items: Vec<Item> = scenarios(&text).collect();
        let invalid = items[1].scenario.as_ref().unwrap_err();
        assert!(invalid.reason.contains("at line 2 column "), "{invalid}");
    }

    #[test]
    fn a_text_without_scenarios_has_none() {
        assert_eq!(lines(" \n\n"), []);
        assert_eq!(lines(""), []);
    }
}
