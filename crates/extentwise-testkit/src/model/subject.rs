//! A page cache under test, and the loop that compares it.

use extentwise_device::ErrorClass;

use super::{Call, Checked, Mismatch, Model, Op, mismatch, pattern};

/// A page cache under test. Files have the indexes of the model; they are open
/// and empty at first.
pub trait Subject {
    /// Writes `bytes` at `offset`; answers how many were taken, not zero unless
    /// there are none. An error means that none was.
    fn write(&mut self, file: usize, offset: u64, bytes: &[u8]) -> Result<usize, ErrorClass>;

    /// Fills `buffer` from `offset` on; answers how many bytes there are.
    fn read(&mut self, file: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, ErrorClass>;

    /// Changes the size. An error means that it is as it was.
    fn resize(&mut self, file: usize, size: u64) -> Result<(), ErrorClass>;

    /// Makes `len` bytes zeros without a change of size. An error means that
    /// they are as they were.
    fn punch(&mut self, file: usize, offset: u64, len: u64) -> Result<(), ErrorClass>;

    /// Makes a file durable.
    fn sync(&mut self, file: usize) -> Result<(), ErrorClass>;

    /// Makes part of a file durable.
    fn sync_range(&mut self, file: usize, offset: u64, len: u64) -> Result<(), ErrorClass>;

    /// Closes a file and opens it again. It does not lose anything, also if it
    /// answers an error (C6).
    fn reopen(&mut self, file: usize) -> Result<(), ErrorClass>;

    /// Starts writeback of a file, and need not wait for it.
    fn writeback(&mut self, file: usize) {
        let _ = file;
    }

    /// Drops from the cache what can be read again.
    fn evict(&mut self) {}

    /// Lets time or completions pass.
    fn wait(&mut self, steps: u8) {
        let _ = steps;
    }

    /// Checks its own invariants; called after every operation.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Whether a subject may answer errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusals {
    /// None: nothing fails below it.
    Forbidden,
    /// Any: there are faults, so an error is an answer.
    Allowed,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Operations done.
    pub ops: u64,
    /// Errors answered.
    pub errors: u64,
    /// Syncs that succeeded.
    pub syncs: u64,
    /// Bytes read and compared.
    pub compared: u64,
}

/// Does `ops` to `subject` and to `model`, and compares after each; at the end
/// every file is read whole. Stops at the first mismatch.
pub fn run(
    subject: &mut impl Subject,
    model: &mut Model,
    ops: impl IntoIterator<Item = Op>,
    refusals: Refusals,
) -> Result<Summary, Mismatch> {
    let mut run = Run {
        subject,
        model,
        refusals,
        summary: Summary::default(),
    };
    for op in ops {
        let call = run.model.call(&op);
        run.apply(call)?;
    }
    for file in 0..run.model.geometry().files {
        // One more than there can be, so that a file too long shows.
        run.read(file, 0, run.model.geometry().size_max + 1)?;
    }
    Ok(run.summary)
}

struct Run<'r, S> {
    subject: &'r mut S,
    model: &'r mut Model,
    refusals: Refusals,
    summary: Summary,
}

impl<S: Subject> Run<'_, S> {
    fn apply(&mut self, call: Call) -> Checked {
        self.summary.ops += 1;
        let mut about = (0, 0);
        match call {
            Call::Write {
                file,
                offset,
                len,
                fill,
            } => {
                about = (file, offset);
                let bytes = pattern(fill, offset, len);
                let answer = self.subject.write(file, offset as u64, &bytes);
                let taken = self.answered(about, "write", answer)?.unwrap_or(0);
                let Some(bytes) = bytes.get(..taken) else {
                    let message = format!("a write of {len} bytes answers {taken}");
                    return Err(mismatch(file, offset, message));
                };
                if taken == 0 && len > 0 && answer.is_ok() {
                    let message = format!("a write of {len} bytes takes none");
                    return Err(mismatch(file, offset, message));
                }
                self.model.write(file, offset, bytes);
            }
            Call::Read { file, offset, len } => {
                about = (file, offset);
                self.read(file, offset, len)?;
            }
            Call::Resize { file, size } => {
                about = (file, size);
                let answer = self.subject.resize(file, size as u64);
                if self.answered(about, "resize", answer)?.is_some() {
                    self.model.resize(file, size);
                }
            }
            Call::Punch { file, offset, len } => {
                about = (file, offset);
                let answer = self.subject.punch(file, offset as u64, len as u64);
                if self.answered(about, "punch", answer)?.is_some() {
                    self.model.punch(file, offset, len);
                }
            }
            Call::Sync { file } => {
                about = (file, 0);
                let sync = self.model.sync_begin(file);
                let answer = self.subject.sync(file);
                if self.answered(about, "sync", answer)?.is_some() {
                    self.summary.syncs += 1;
                    self.model.sync_end(sync);
                }
            }
            Call::SyncRange { file, offset, len } => {
                about = (file, offset);
                let sync = self.model.sync_range_begin(file, offset, len);
                let answer = self.subject.sync_range(file, offset as u64, len as u64);
                if self.answered(about, "sync of a range", answer)?.is_some() {
                    self.summary.syncs += 1;
                    self.model.sync_end(sync);
                }
            }
            Call::Reopen { file } => {
                about = (file, 0);
                let answer = self.subject.reopen(file);
                self.answered(about, "reopen", answer)?;
            }
            Call::Writeback { file } => self.subject.writeback(file),
            Call::Evict => self.subject.evict(),
            Call::Wait { steps } => self.subject.wait(steps),
        }
        let checked = self.subject.check();
        checked.map_err(|broken| mismatch(about.0, about.1, format!("after {call:?}: {broken}")))
    }

    fn read(&mut self, file: usize, offset: usize, len: usize) -> Checked {
        let mut buffer = vec![0xa5; len];
        let answer = self.subject.read(file, offset as u64, &mut buffer);
        let Some(read) = self.answered((file, offset), "read", answer)? else {
            return Ok(());
        };
        let Some(seen) = buffer.get(..read) else {
            let message = format!("a read of {len} bytes answers {read}");
            return Err(mismatch(file, offset, message));
        };
        self.summary.compared += read as u64;
        self.model.check_read(file, offset, len, seen)
    }

    /// The answer, or `None` for an error that may be.
    fn answered<T>(
        &mut self,
        (file, offset): (usize, usize),
        what: &str,
        answer: Result<T, ErrorClass>,
    ) -> Result<Option<T>, Mismatch> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(class) if self.refusals == Refusals::Forbidden => {
                let message = format!("{what} answers {class}, and nothing failed");
                Err(mismatch(file, offset, message))
            }
            Err(_) => {
                self.summary.errors += 1;
                Ok(None)
            }
        }
    }
}
