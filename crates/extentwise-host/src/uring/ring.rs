//! The ring itself.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, opcode};
use rustix::io::Errno;

use super::UringError;

/// A stretch of memory, laid out as the kernel's `iovec`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Piece {
    pub(super) start: *mut u8,
    pub(super) len: usize,
}

/// What the kernel is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Read,
    Write,
    Flush,
}

/// Who carries a call out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// The kernel as it thinks best: at once where that needs no waiting.
    Any,
    /// A thread of the kernel that may wait.
    Thread,
}

/// What was asked by number, and its answer.
pub(super) struct Answer {
    pub(super) tag: u64,
    pub(super) result: Result<usize, Errno>,
}

/// A ring of the kernel; none after it broke.
pub(super) struct Ring(Option<IoUring>);

impl Ring {
    /// Pieces that one call takes (`UIO_MAXIOV`).
    const PIECES_MAX: usize = 1024;

    /// A ring for `depth` calls under way.
    pub(super) fn new(depth: u32) -> Result<Self, UringError> {
        if depth == 0 || depth > UringError::DEPTH_MAX {
            return Err(UringError::Depth(depth));
        }
        let ring = IoUring::new(depth.next_power_of_two()).map_err(UringError::of)?;
        Ok(Self(Some(ring)))
    }

    /// The entry of a call; it names `file` and `pieces`, but keeps neither.
    pub(super) fn entry(
        call: Call,
        carrier: Carrier,
        file: &File,
        pieces: &[Piece],
        at: u64,
        tag: u64,
    ) -> Entry {
        let file = Fd(file.as_raw_fd());
        let start = pieces.as_ptr().cast();
        // The constant fits.
        let count = u32::try_from(pieces.len().min(Self::PIECES_MAX)).unwrap_or(u32::MAX);
        let entry = match call {
            Call::Read => opcode::Readv::new(file, start, count).offset(at).build(),
            Call::Write => opcode::Writev::new(file, start, count).offset(at).build(),
            Call::Flush => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
        };
        let flags = match carrier {
            Carrier::Any => Flags::empty(),
            Carrier::Thread => Flags::ASYNC,
        };
        entry.flags(flags).user_data(tag)
    }

    /// Queues a call; false where the queue is full.
    ///
    /// # Safety
    ///
    /// Until its answer came, or the ring was dropped without
    /// [`enter`](Self::enter) having been called since: the file of the entry is
    /// open, its array of pieces stays as it is, what they name is allocated,
    /// and, for a read, nothing else reads, writes or borrows that.
    pub(super) unsafe fn push(&mut self, entry: &Entry) -> bool {
        let Some(ring) = &mut self.0 else {
            return false;
        };
        // SAFETY: what the entry names is valid by the contract of this function.
        unsafe { ring.submission().push(entry) }.is_ok()
    }

    /// Hands the queue over, and waits for so many answers, or fewer where some
    /// are there.
    pub(super) fn enter(&mut self, answers: usize) -> Result<(), Errno> {
        let ring = self.0.as_mut().ok_or(Errno::BADF)?;
        loop {
            let Err(error) = ring.submit_and_wait(answers) else {
                return Ok(());
            };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                Some(Errno::AGAIN | Errno::BUSY) => {
                    if !ring.completion().is_empty() {
                        return Ok(());
                    }
                    std::thread::sleep(PAUSE);
                }
                errno => return Err(errno.unwrap_or(Errno::IO)),
            }
        }
    }

    /// An answer that came.
    pub(super) fn answer(&mut self) -> Option<Answer> {
        let answer = self.0.as_mut()?.completion().next()?;
        let result = answer.result();
        let result = usize::try_from(result)
            .map_err(|_| Errno::from_raw_os_error(result.checked_neg().unwrap_or(i32::MAX)));
        Some(Answer {
            tag: answer.user_data(),
            result,
        })
    }

    /// Takes no more calls; those under way end by themselves.
    pub(super) fn close(&mut self) {
        self.0 = None;
    }

    /// Makes one call on a ring with no other under way, and waits for it.
    ///
    /// # Safety
    ///
    /// While this runs: the file of the entry is open, its array of pieces stays
    /// as it is, what they name is allocated, and, for a read, nothing else
    /// reads, writes or borrows that.
    pub(super) unsafe fn call(&mut self, entry: &Entry) -> Result<usize, Errno> {
        // SAFETY: what the entry names is valid while this function runs, and it
        // returns when the answer came, or the kernel never saw the call and the
        // ring is dropped.
        let queued = unsafe { self.push(entry) };
        if !queued {
            return Err(Errno::BADF);
        }
        loop {
            if let Some(answer) = self.answer() {
                return answer.result;
            }
            let Err(errno) = self.enter(1) else {
                continue;
            };
            if self.has_queued() {
                self.0 = None;
                return Err(errno);
            }
            // The kernel has the call, and its memory: it ends by itself.
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether the kernel has not taken everything over yet.
    fn has_queued(&mut self) -> bool {
        let ring = self.0.as_mut();
        ring.is_some_and(|ring| !ring.submission().is_empty())
    }
}

/// Until the kernel may have more to say.
const PAUSE: Duration = Duration::from_millis(1);
