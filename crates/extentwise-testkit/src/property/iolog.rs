//! Hostile text as fio I/O logs.

use std::io::BufReader;

use extentwise_cli::iolog::{Action, FILE_LEN_MAX, Iolog, Record, Span};

/// The readers that a log is handed out by: whole, and a few bytes at a time.
const CHUNK_LENS: [usize; 2] = [1, 7];

/// Any bytes either parse or are refused with a line and a reason; records obey
/// the parser's promises; and it makes no difference in which pieces the bytes
/// arrive.
///
/// # Panics
///
/// Where that does not hold.
pub fn iolog(data: &[u8]) {
    let (records, refusal, files) = read_all(Iolog::new(data), data.len());
    let mut last_line = 0;
    for record in &records {
        assert!(record.line > last_line, "lines ascend: {record:?}");
        last_line = record.line;
        let (file, span) = parts(record.action);
        assert!(
            file.is_none_or(|file| file < files),
            "{record:?} of {files} files"
        );
        if let Some(span) = span {
            assert!(span.end() <= FILE_LEN_MAX, "{record:?}");
            assert_eq!(span.end() - span.offset(), span.len());
            assert_eq!(Span::new(span.offset(), span.len()), Some(span));
        }
    }
    for len in CHUNK_LENS {
        let chunked = Iolog::new(BufReader::with_capacity(len, data));
        assert_eq!(
            read_all(chunked, data.len()),
            (records.clone(), refusal.clone(), files),
            "in pieces of {len}"
        );
    }
}

pub(super) fn describe(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

type Outcome = (Vec<Record>, Option<String>, usize);

fn read_all<R: std::io::BufRead>(mut log: Iolog<R>, len: usize) -> Outcome {
    let mut records = Vec::new();
    let mut refusal = None;
    for next in log.by_ref() {
        assert!(refusal.is_none(), "the log ends with its first error");
        match next {
            Ok(record) => records.push(record),
            Err(error) => {
                assert!(error.line() > 0, "{error}");
                refusal = Some(error.to_string());
            }
        }
    }
    assert!(log.next().is_none(), "an ended log stays ended");
    assert!(log.bytes_read() <= len as u64);
    (records, refusal, log.files().len())
}

fn parts(action: Action) -> (Option<usize>, Option<Span>) {
    match action {
        Action::Add(file)
        | Action::Open(file)
        | Action::Close(file)
        | Action::Sync(file)
        | Action::Datasync(file) => (Some(file.index()), None),
        Action::Read(file, span) | Action::Write(file, span) | Action::Trim(file, span) => {
            (Some(file.index()), Some(span))
        }
        Action::Wait => (None, None),
    }
}
