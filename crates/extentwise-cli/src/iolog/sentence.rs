//! The line of one action, taken apart.

use super::{Action, Names, Problem, Span, Version, shown};

/// An action's line taken apart: `NAME VERB [OFFSET LENGTH]`.
#[derive(Debug)]
pub(super) struct Sentence<'a> {
    name: &'a [u8],
    verb: Verb,
    span: Option<(u64, u64)>,
}

impl<'a> Sentence<'a> {
    /// Takes `line` apart, from its end because a name may hold spaces.
    pub(super) fn parse(line: &'a [u8], version: Option<Version>) -> Result<Self, Problem> {
        let text = match version {
            None => return Err(Problem::NoHeader(shown(line))),
            Some(Version::V2) => line,
            Some(Version::V3) => {
                let (timestamp, text) = split_first_word(line);
                number("timestamp", timestamp)?;
                text
            }
        };
        let no_sentence = || Problem::NoSentence(shown(line));
        let (before_last, last) = split_last_word(text);
        if let Some(verb) = Verb::from_word(last) {
            return Self::without_span(before_last, verb, line);
        }
        let (before_both, first) = split_last_word(before_last);
        if let Some(verb) = Verb::from_word(first) {
            return match verb {
                Verb::Wait => {
                    number("time", last)?;
                    Self::without_span(before_both, verb, line)
                }
                _ => Err(Problem::NumbersMissing(verb.word(), shown(line))),
            };
        }
        let (name, word) = split_last_word(before_both);
        if name.is_empty() {
            return Err(no_sentence());
        }
        let verb = Verb::from_word(word).ok_or_else(|| Problem::UnknownAction(shown(word)))?;
        let span = (number("offset", first)?, number("length", last)?);
        match verb {
            Verb::Add | Verb::Open | Verb::Close => {
                Err(Problem::NumbersUnwanted(verb.word(), shown(line)))
            }
            _ => Ok(Self {
                name,
                verb,
                span: Some(span),
            }),
        }
    }

    fn without_span(name: &'a [u8], verb: Verb, line: &[u8]) -> Result<Self, Problem> {
        if name.is_empty() {
            return Err(Problem::NoSentence(shown(line)));
        }
        match verb {
            Verb::Read | Verb::Write | Verb::Trim => {
                Err(Problem::NumbersMissing(verb.word(), shown(line)))
            }
            _ => Ok(Self {
                name,
                verb,
                span: None,
            }),
        }
    }

    /// What the line asks for, its name looked up (or added) in `names`.
    pub(super) fn action(&self, names: &mut Names, line_number: u64) -> Result<Action, Problem> {
        let span = || {
            let (offset, len) = self.span.unwrap_or_default();
            Span::new(offset, len).ok_or(Problem::PastFileEnd(offset, len))
        };
        Ok(match self.verb {
            Verb::Add => Action::Add(names.add(self.name, line_number)),
            Verb::Open => Action::Open(names.known(self.name)?),
            Verb::Close => Action::Close(names.known(self.name)?),
            Verb::Read => Action::Read(names.known(self.name)?, span()?),
            Verb::Write => Action::Write(names.known(self.name)?, span()?),
            Verb::Trim => Action::Trim(names.known(self.name)?, span()?),
            Verb::Sync => Action::Sync(names.known(self.name)?),
            Verb::Datasync | Verb::SyncFileRange => Action::Datasync(names.known(self.name)?),
            Verb::Wait => Action::Wait,
        })
    }
}

/// What a line can ask for, and the word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Add,
    Open,
    Close,
    Read,
    Write,
    Trim,
    Sync,
    Datasync,
    SyncFileRange,
    Wait,
}

impl Verb {
    const ALL: [Self; 10] = [
        Self::Add,
        Self::Open,
        Self::Close,
        Self::Read,
        Self::Write,
        Self::Trim,
        Self::Sync,
        Self::Datasync,
        Self::SyncFileRange,
        Self::Wait,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Open => "open",
            Self::Close => "close",
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Sync => "sync",
            Self::Datasync => "datasync",
            Self::SyncFileRange => "sync_file_range",
            Self::Wait => "wait",
        }
    }

    fn from_word(word: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|verb| verb.word().as_bytes() == word)
    }
}

fn number(what: &'static str, word: &[u8]) -> Result<u64, Problem> {
    let digits = word.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(word).ok().filter(|_| digits);
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| Problem::BadNumber(what, shown(word)))
}

/// The first word of a trimmed line and the rest, trimmed too.
fn split_first_word(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(u8::is_ascii_whitespace);
    let (word, rest) = line.split_at(end.unwrap_or(line.len()));
    (word, rest.trim_ascii_start())
}

/// The last word of a trimmed line, behind what stands before it, trimmed too.
fn split_last_word(line: &[u8]) -> (&[u8], &[u8]) {
    let start = line.iter().rposition(u8::is_ascii_whitespace);
    let (rest, word) = line.split_at(start.map_or(0, |at| at + 1));
    (rest.trim_ascii_end(), word)
}
