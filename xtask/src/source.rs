//! Rust sources as text: which files there are, and which of their characters are code.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// All `*.rs` files below `folder`, in order, without build results and hidden folders.
pub(crate) fn rust_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // A symbolic link is neither: what it points at is met elsewhere or is foreign.
            if entry.file_type()?.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if entry.file_type()?.is_file() && name.ends_with(".rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The words (identifiers and keywords) of a line of code.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
}

/// `text` with comments, strings and character literals replaced by blanks; line breaks stay,
/// so that line numbers hold. Text that is not valid Rust gives some answer, never a panic.
pub(crate) fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    let mut previous = ' ';
    while let Some(letter) = rest.chars().next() {
        let in_word = previous.is_alphanumeric() || previous == '_';
        let skipped = match letter {
            '/' => comment(rest),
            '"' => quoted(rest),
            '\'' => character(rest),
            'r' | 'b' | 'c' if !in_word => prefixed(rest),
            _ => None,
        };
        if let Some(length) = skipped {
            let (gone, behind) = rest.split_at(length);
            code.extend(gone.chars().map(|c| if c == '\n' { c } else { ' ' }));
            rest = behind;
            previous = ' ';
        } else {
            code.push(letter);
            rest = &rest[letter.len_utf8()..];
            previous = letter;
        }
    }
    code
}

/// Length of the comment at the start of `text`; block comments nest.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += 1;
        }
    }
    Some(text.len())
}

/// Length of the string literal at the start of `text`, quotes included.
fn quoted(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, letter) in inside.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 2),
            _ => {}
        }
    }
    Some(text.len())
}

/// Length of the character literal at the start of `text`; none if it is a lifetime.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let mut letters = inside.char_indices();
    let (_, first) = letters.next()?;
    if first == '\\' {
        let (_, _) = letters.next()?;
        let (at, _) = letters.find(|&(_, letter)| letter == '\'')?;
        return Some(at + 2);
    }
    let (at, second) = letters.next()?;
    (second == '\'').then_some(at + 2)
}

/// Length of a raw, byte or C literal at the start of `text`.
fn prefixed(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c"].into_iter().find(|prefix| {
        text.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(['"', '#', '\'']))
    })?;
    let rest = &text[prefix.len()..];
    if !prefix.ends_with('r') {
        let length = quoted(rest).or_else(|| character(rest).filter(|_| prefix == "b"))?;
        return Some(prefix.len() + length);
    }
    let inside = rest.trim_start_matches('#');
    let hashes = rest.len() - inside.len();
    // `r#type` is an identifier.
    let inside = inside.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let opened = prefix.len() + hashes + 1;
    Some(match inside.find(&end) {
        Some(at) => opened + at + end.len(),
        None => text.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code that is left, with the blanks squeezed.
    fn squeezed(text: &str) -> String {
        let code = code_only(text);
        assert_eq!(code.lines().count(), text.lines().count());
        code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(squeezed("a // b \"\nc"), "a c");
        assert_eq!(squeezed("a /* b /* c */ d */ e"), "a e");
        assert_eq!(squeezed("a / b"), "a / b");
        assert_eq!(squeezed("a /* never closed\n\n"), "a");
    }

    #[test]
    fn strings_are_not_code() {
        assert_eq!(squeezed(r#"a "b \" c" d"#), "a d");
        assert_eq!(squeezed(r##"a r#"b " c"# d"##), "a d");
        assert_eq!(squeezed(r#"a b"b" c"c" br"\" cr"\" d"#), "a d");
        assert_eq!(squeezed("a \"// b\nc\" d"), "a d");
        assert_eq!(squeezed("a \"\u{e9}\u{1f600}\" b"), "a b");
    }

    #[test]
    fn a_lifetime_is_code_and_a_character_is_not() {
        assert_eq!(
            squeezed("f<'a>('\"', 'b', b'\\'', '\\u{41}') c"),
            "f<'a>( , , , ) c"
        );
        assert_eq!(squeezed("'outer: loop {}"), "'outer: loop {}");
        assert_eq!(squeezed("a '"), "a '");
    }

    #[test]
    fn raw_identifiers_and_words_that_end_in_a_prefix_are_code() {
        assert_eq!(squeezed("r#type"), "r#type");
        assert_eq!(squeezed("number\"b\" c"), "number c");
    }

    #[test]
    fn words_are_whole() {
        let found: Vec<&str> = words("#[deny(unsafe_code)] r#unsafe").collect();
        assert_eq!(found, ["deny", "unsafe_code", "r", "unsafe"]);
    }

    #[test]
    fn files_are_found_outside_of_build_results_only() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = rust_files(root).expect("the package's own folder is readable");
        assert!(files.contains(&root.join("src/source.rs")));
        assert!(
            files
                .iter()
                .all(|file| !file.components().any(|c| c.as_os_str() == "target"))
        );
    }
}
