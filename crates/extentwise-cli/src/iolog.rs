//! fio's I/O logs, as `fio --write_iolog` writes them (versions 2 and 3).
//!
//! [`Iolog`] reads a log line by line and hands out [`Record`]s; a log of any
//! length is read in the memory of one line and the names it adds.
//!
//! # The format
//!
//! A header, `fio version 2 iolog` or `fio version 3 iolog`, then one action a
//! line. Jobs that share a log append to it, so a header may come again, also
//! with another version; it holds for the lines behind it.
//!
//! ```text
//! NAME add|open|close
//! NAME read|write|trim OFFSET LENGTH
//! NAME sync|datasync|sync_file_range [OFFSET LENGTH]
//! NAME wait [MICROSECONDS [LENGTH]]
//! ```
//!
//! Version 3 puts a timestamp in microseconds before the name. fio writes names
//! as they are, spaces included, so a line is read from its end. `add` may
//! come again for a name; every other action but `wait` needs the name added
//! before. Whether a file is open is not tracked: the opens and closes of jobs
//! that share a log interleave.
//!
//! Jobs that run *at the same time* on one log tear each other's lines, because
//! fio flushes its buffer wherever it is full. A torn line is an error like any
//! other; `stonewall` in the job file keeps a shared log whole.

mod sentence;

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::{error, fmt};

use sentence::Sentence;

/// The longest line that is read, in bytes; fio itself reads 4096.
pub const LINE_LEN_MAX: usize = 8192;

/// The last byte offset at which a file can end (`off_t` is signed).
pub const FILE_LEN_MAX: u64 = i64::MAX as u64;

/// A log being read: an iterator of its actions in order.
///
/// **Invariant**: lines are counted from 1, headers and empty lines too; every
/// [`FileId`] in a record is an index into [`Iolog::files`]; after an error the
/// iterator ends.
#[derive(Debug)]
pub struct Iolog<R> {
    source: R,
    line: Vec<u8>,
    line_number: u64,
    bytes_read: u64,
    version: Option<Version>,
    names: Names,
    ended: bool,
}

impl<R: BufRead> Iolog<R> {
    /// Reads the log in `source`.
    pub fn new(source: R) -> Self {
        Self {
            source,
            line: Vec::new(),
            line_number: 0,
            bytes_read: 0,
            version: None,
            names: Names::default(),
            ended: false,
        }
    }

    /// The files added so far, in the order of their first `add`.
    pub fn files(&self) -> &[AddedFile] {
        &self.names.files
    }

    /// How much of the source was consumed, in bytes.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The next action; headers and empty lines are passed over.
    fn next_action(&mut self) -> Result<Option<Action>, Problem> {
        while self.next_line()? {
            let line = self.line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            if let Some(version) = header(line) {
                self.version = Some(version?);
                continue;
            }
            let sentence = Sentence::parse(line, self.version)?;
            return sentence.action(&mut self.names, self.line_number).map(Some);
        }
        match self.version {
            None => Err(Problem::NoHeader(String::new())),
            Some(_) => Ok(None),
        }
    }

    /// Reads the next line into `self.line`, without its end. `false` at the
    /// end of the log.
    fn next_line(&mut self) -> Result<bool, Problem> {
        self.line.clear();
        self.line_number += 1;
        loop {
            let available = match self.source.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Problem::Read(error)),
            };
            if available.is_empty() {
                return Ok(!self.line.is_empty());
            }
            let newline = available.iter().position(|&byte| byte == b'\n');
            let content = &available[..newline.unwrap_or(available.len())];
            if content.len() > LINE_LEN_MAX - self.line.len() {
                return Err(Problem::LineTooLong);
            }
            self.line.extend_from_slice(content);
            let consumed_len = content.len() + usize::from(newline.is_some());
            self.source.consume(consumed_len);
            self.bytes_read += consumed_len as u64;
            if newline.is_some() {
                return Ok(true);
            }
        }
    }
}

impl<R: BufRead> Iterator for Iolog<R> {
    type Item = Result<Record, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let outcome = self.next_action();
        let line = self.line_number;
        self.ended = !matches!(outcome, Ok(Some(_)));
        match outcome {
            Ok(action) => Some(Ok(Record {
                line,
                action: action?,
            })),
            Err(problem) => Some(Err(ParseError { line, problem })),
        }
    }
}

/// One action of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The line it stands on, from 1.
    pub line: u64,
    /// What it asks for.
    pub action: Action,
}

/// What one line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The file takes part from here on.
    Add(FileId),
    /// The file is opened.
    Open(FileId),
    /// The file is closed.
    Close(FileId),
    /// Bytes are read.
    Read(FileId, Span),
    /// Bytes are written.
    Write(FileId, Span),
    /// Bytes are discarded and read as zero from here on.
    Trim(FileId, Span),
    /// The file's data and metadata become durable.
    Sync(FileId),
    /// The file's data becomes durable; stands for `sync_file_range` too,
    /// which asks for less.
    Datasync(FileId),
    /// Time passes. How much is of no use here and not kept.
    Wait,
}

/// A file of the log: an index into [`Iolog::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(usize);

impl FileId {
    /// The index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// A range of a file in bytes.
///
/// **Invariant**: `offset + len` is at most [`FILE_LEN_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    offset: u64,
    len: u64,
}

impl Span {
    /// The range of `len` bytes at `offset`; `None` if no file can hold it.
    #[must_use]
    pub fn new(offset: u64, len: u64) -> Option<Self> {
        let end = offset.checked_add(len)?;
        (end <= FILE_LEN_MAX).then_some(Self { offset, len })
    }

    /// Where it starts.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(self) -> u64 {
        self.len
    }

    /// Whether it holds no byte.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Where it ends (exclusive).
    #[must_use]
    pub fn end(self) -> u64 {
        self.offset + self.len
    }
}

/// A file that the log added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedFile {
    /// Its name as the log has it: bytes, usually a path.
    pub name: Box<[u8]>,
    /// The line of its first `add`.
    pub line: u64,
}

/// A line that is none of an I/O log, or a log that cannot be read.
#[derive(Debug)]
pub struct ParseError {
    line: u64,
    problem: Problem,
}

impl ParseError {
    /// The line it is about, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl error::Error for ParseError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.problem {
            Problem::Read(error) => Some(error),
            _ => None,
        }
    }
}

/// A name or a line as messages show it: escaped, and cut where it is long.
#[must_use]
pub fn shown(bytes: &[u8]) -> String {
    const SHOWN_LEN_MAX: usize = 100;
    let cut = &bytes[..bytes.len().min(SHOWN_LEN_MAX)];
    let mut text = cut.escape_ascii().to_string();
    if cut.len() < bytes.len() {
        text.push_str("...");
    }
    text
}

/// What is wrong with a line.
#[derive(Debug)]
enum Problem {
    Read(io::Error),
    LineTooLong,
    NoHeader(String),
    UnknownVersion(String),
    NoSentence(String),
    UnknownAction(String),
    NumbersMissing(&'static str, String),
    NumbersUnwanted(&'static str, String),
    BadNumber(&'static str, String),
    PastFileEnd(u64, u64),
    NotAdded(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(_) => write!(f, "the log cannot be read"),
            Self::LineTooLong => write!(f, "a line has at most {LINE_LEN_MAX} bytes"),
            Self::NoHeader(line) => write!(
                f,
                "`{line}` stands before a header: a log starts with `fio version 2 iolog` or \
                 `fio version 3 iolog`"
            ),
            Self::UnknownVersion(version) => {
                write!(f, "version `{version}`: only 2 and 3 are known")
            }
            Self::NoSentence(line) => {
                write!(
                    f,
                    "`{line}` is no action: one is NAME ACTION [OFFSET LENGTH]"
                )
            }
            Self::UnknownAction(action) => write!(
                f,
                "action `{action}`: a log has add, open, close, read, write, trim, sync, \
                 datasync, sync_file_range, wait"
            ),
            Self::NumbersMissing(action, line) => {
                write!(f, "`{line}`: {action} needs OFFSET and LENGTH behind it")
            }
            Self::NumbersUnwanted(action, line) => {
                write!(f, "`{line}`: {action} has no OFFSET and LENGTH behind it")
            }
            Self::BadNumber(what, value) => write!(
                f,
                "{what} `{value}`: must be a decimal number from 0 to {}",
                u64::MAX
            ),
            Self::PastFileEnd(offset, len) => write!(
                f,
                "offset {offset} and length {len}: the sum must be at most {FILE_LEN_MAX}, \
                 where a file ends"
            ),
            Self::NotAdded(name) => {
                write!(f, "file `{name}`: must be added before it is used")
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V2,
    V3,
}

/// The version that a header line names; `None` for any other line.
fn header(line: &[u8]) -> Option<Result<Version, Problem>> {
    let version = line
        .strip_prefix(b"fio version ")?
        .strip_suffix(b" iolog")?;
    Some(match version {
        b"2" => Ok(Version::V2),
        b"3" => Ok(Version::V3),
        _ => Err(Problem::UnknownVersion(shown(version))),
    })
}

/// The files added so far, and which name is which.
#[derive(Debug, Default)]
struct Names {
    ids: HashMap<Box<[u8]>, FileId>,
    files: Vec<AddedFile>,
}

impl Names {
    fn add(&mut self, name: &[u8], line: u64) -> FileId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = FileId(self.files.len());
        let name: Box<[u8]> = name.into();
        self.ids.insert(name.clone(), id);
        self.files.push(AddedFile { name, line });
        id
    }

    fn known(&self, name: &[u8]) -> Result<FileId, Problem> {
        let id = self.ids.get(name).copied();
        id.ok_or_else(|| Problem::NotAdded(shown(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(log: &[u8]) -> Result<Vec<Record>, ParseError> {
        Iolog::new(log).collect()
    }

    fn actions(log: &str) -> Vec<Action> {
        let records = records(log.as_bytes()).expect("the log is sound");
        records.into_iter().map(|record| record.action).collect()
    }

    fn refusal(log: &[u8]) -> String {
        records(log).expect_err("the log is broken").to_string()
    }

    fn span(offset: u64, len: u64) -> Span {
        Span::new(offset, len).expect("a file can hold it")
    }

    const F: FileId = FileId(0);

    #[test]
    fn version_2_with_every_action_is_read() {
        let log = "fio version 2 iolog\n/dir/f add\n/dir/f open\n/dir/f read 0 4096\n\
            /dir/f write 4096 512\n/dir/f trim 0 10\n/dir/f wait 100 0\n/dir/f sync 0 0\n\
            /dir/f datasync 8 0\n/dir/f sync_file_range 8 0\n/dir/f sync\n/dir/f close\n";
        let expected = [
            Action::Add(F),
            Action::Open(F),
            Action::Read(F, span(0, 4096)),
            Action::Write(F, span(4096, 512)),
            Action::Trim(F, span(0, 10)),
            Action::Wait,
            Action::Sync(F),
            Action::Datasync(F),
            Action::Datasync(F),
            Action::Sync(F),
            Action::Close(F),
        ];
        assert_eq!(actions(log), expected);
    }

    #[test]
    fn version_3_as_fio_writes_it_is_read() {
        let log = "fio version 3 iolog\n34 data2 add\n174 data2 open\n180 data2 write 0 4096\n\
            286 data2 datasync 4096 0\n400 data2 trim 0 4096\n3331 data2 close\n";
        assert_eq!(actions(log).len(), 6);
        assert_eq!(actions(log)[2], Action::Write(F, span(0, 4096)));
    }

    #[test]
    fn a_header_in_the_middle_changes_the_version() {
        let log = "fio version 3 iolog\n1 a add\n2 a write 0 1\nfio version 2 iolog\n\
            b add\na write 1 1\nb write 0 1\nfio version 3 iolog\n0 a add\n1 a write 5 6\n";
        let mut iolog = Iolog::new(log.as_bytes());
        let last = iolog
            .by_ref()
            .map(Result::unwrap)
            .last()
            .expect("not empty");
        assert_eq!(
            last,
            Record {
                line: 10,
                action: Action::Write(F, span(5, 6))
            }
        );
        let names: Vec<&[u8]> = iolog.files().iter().map(|file| &*file.name).collect();
        assert_eq!(names, [b"a", b"b"]);
        assert_eq!(iolog.files()[1].line, 5);
        assert_eq!(iolog.bytes_read(), log.len() as u64);
    }

    #[test]
    fn a_name_keeps_its_spaces_and_bytes() {
        let log = b"fio version 3 iolog\n1 my  odd\xffname add\n2 my  odd\xffname write 1 2\n";
        let mut iolog = Iolog::new(&log[..]);
        assert_eq!(iolog.by_ref().flatten().count(), 2);
        assert_eq!(&*iolog.files()[0].name, b"my  odd\xffname");
    }

    #[test]
    fn carriage_returns_empty_lines_and_a_missing_last_newline_do_no_harm() {
        let log = "fio version 2 iolog\r\n\r\n\na add\r\n   \na write 0 1";
        assert_eq!(actions(log), [Action::Add(F), Action::Write(F, span(0, 1))]);
    }

    #[test]
    fn wait_needs_no_added_file_and_no_second_number() {
        let log = "fio version 2 iolog\nx wait 5 0\nx wait 5\nx wait\n";
        assert_eq!(actions(log), [Action::Wait; 3]);
    }

    #[test]
    fn errors_name_line_value_and_rule() {
        let table: [(&[u8], &str); 20] = [
            (b"", "line 1: `` stands before a header"),
            (b"a add\n", "line 1: `a add` stands before a header"),
            (
                b"0, 0, 4096\n",
                "line 1: `0, 0, 4096` stands before a header",
            ),
            (
                b"fio version 4 iolog\n",
                "line 1: version `4`: only 2 and 3",
            ),
            (
                b"fio version 2 iolog\nhello\n",
                "line 2: `hello` is no action",
            ),
            (b"fio version 2 iolog\nadd\n", "line 2: `add` is no action"),
            (
                b"fio version 2 iolog\nhello world\n",
                "line 2: `hello world` is no action",
            ),
            (
                b"fio version 2 iolog\na grow 0 1\n",
                "line 2: action `grow`: a log has add, open",
            ),
            (
                b"fio version 2 iolog\na add\na write\n",
                "line 3: `a write`: write needs OFFSET",
            ),
            (
                b"fio version 2 iolog\na add\na write 0\n",
                "line 3: `a write 0`: write needs OFFSET",
            ),
            (
                b"fio version 2 iolog\na add 0 0\n",
                "line 2: `a add 0 0`: add has no OFFSET",
            ),
            (
                b"fio version 2 iolog\na add\na write x 1\n",
                "line 3: offset `x`: must be a decimal",
            ),
            (
                b"fio version 2 iolog\na add\na write -1 1\n",
                "line 3: offset `-1`: must be",
            ),
            (
                b"fio version 2 iolog\na add\na write 1 +1\n",
                "line 3: length `+1`: must be",
            ),
            (
                b"fio version 2 iolog\na add\na read 0 18446744073709551616\n",
                "line 3: length `18446744073709551616`: must be a decimal number from 0 to \
                 18446744073709551615",
            ),
            (
                b"fio version 2 iolog\na add\na write 9223372036854775807 1\n",
                "line 3: offset 9223372036854775807 and length 1: the sum must be at most \
                 9223372036854775807",
            ),
            (
                b"fio version 2 iolog\na add\na trim 18446744073709551615 2\n",
                "line 3: offset 18446744073709551615 and length 2: the sum",
            ),
            (
                b"fio version 2 iolog\nb write 0 1\n",
                "line 2: file `b`: must be added before",
            ),
            (
                b"fio version 3 iolog\na add\n",
                "line 2: timestamp `a`: must be",
            ),
            (
                b"fio version 3 iolog\n1 \x01\xff nix\n",
                "line 2: `1 \\x01\\xff nix` is no action",
            ),
        ];
        for (log, expected) in table {
            let message = refusal(log);
            assert!(message.starts_with(expected), "{message} is not {expected}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_in_bounded_memory() {
        let mut log = b"fio version 2 iolog\n".to_vec();
        log.resize(log.len() + 40 * LINE_LEN_MAX, b'a');
        let mut iolog = Iolog::new(io::BufReader::new(&log[..]));
        let message = iolog.next().expect("an item").expect_err("too long");
        assert_eq!(message.to_string(), "line 2: a line has at most 8192 bytes");
        assert!(iolog.line.capacity() <= 2 * LINE_LEN_MAX);
        assert!(iolog.next().is_none(), "an error ends the log");
    }

    #[test]
    fn a_torn_line_of_concurrent_jobs_is_refused() {
        let log = b"fio version 3 iolog\n26 f add\n5203fio version 3 iolog\n44 f add\n";
        assert!(refusal(log).starts_with("line 3: "));
    }
}
