//! The trace file: read twice, once to check all of it before anything is
//! written, once to replay it.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::iolog::{AddedFile, Iolog};

/// A trace that was checked from end to end.
#[derive(Debug)]
pub(crate) struct Trace {
    file: File,
    files: Vec<AddedFile>,
    len_bytes: u64,
}

impl Trace {
    /// Reads and checks the trace at `path`; `-` is standard input. What is no
    /// plain file (a pipe, say) can be read only once, so it is copied to an
    /// unnamed temporary file while it is checked.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let at_path = || path.display().to_string();
        if path == Path::new("-") {
            return Self::checked_copy(io::stdin()).with_context(at_path);
        }
        let file = File::open(path).with_context(at_path)?;
        let checked = if file.metadata().with_context(at_path)?.is_file() {
            check(&file).map(|(files, len_bytes)| Self {
                file,
                files,
                len_bytes,
            })
        } else {
            Self::checked_copy(file)
        };
        checked.with_context(at_path)
    }

    /// The files that it adds, in the order of their first `add`.
    pub(crate) fn files(&self) -> &[AddedFile] {
        &self.files
    }

    /// Its length in bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Whether it is the file that `other` is.
    pub(crate) fn is_same_file(&self, other: &std::fs::Metadata) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt;
        let own = self.file.metadata()?;
        Ok((own.dev(), own.ino()) == (other.dev(), other.ino()))
    }

    /// Its records, from the start.
    pub(crate) fn records(&self) -> Result<Iolog<BufReader<&File>>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))
            .context("rewinding the trace")?;
        Ok(Iolog::new(BufReader::new(file)))
    }

    fn checked_copy(source: impl Read) -> Result<Self> {
        let mut copy = tempfile::tempfile().context("a temporary file for the trace")?;
        let (files, len_bytes) = check(Tee {
            source,
            copy: &mut copy,
        })?;
        Ok(Self {
            file: copy,
            files,
            len_bytes,
        })
    }
}

/// Reads the log to its end; answers its files and its length.
fn check(source: impl Read) -> Result<(Vec<AddedFile>, u64)> {
    let mut iolog = Iolog::new(BufReader::new(source));
    for record in iolog.by_ref() {
        record?;
    }
    Ok((iolog.files().to_vec(), iolog.bytes_read()))
}

/// A reader that keeps what it read.
struct Tee<'a, R> {
    source: R,
    copy: &'a mut File,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read(buffer)?;
        self.copy.write_all(&buffer[..len])?;
        Ok(len)
    }
}
