//! What direct I/O on a file asks of addresses, lengths and memory (C9).

use std::fs::{File, FileType};
use std::os::unix::fs::FileTypeExt;

use extentwise_memory::Folio;
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

use crate::disk::retried;
use crate::open::{OpenCause, OpenError};

/// The largest alignment that [`Folio`]s have.
const ALIGN_MAX: u32 = 2 << 20;

/// Blocks that are tried where nobody says which it is.
const TRIED: [u32; 2] = [512, 4096];

/// Alignments, all powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// Of addresses and lengths.
    pub(crate) block: u32,
    /// Of memory.
    pub(crate) memory: usize,
    /// The physical block, where it is a device that tells.
    pub(crate) physical: Option<u32>,
}

impl Alignment {
    /// Any address, any length, any memory.
    pub(crate) const NONE: Self = Self {
        block: 1,
        memory: 1,
        physical: None,
    };

    /// Asks for the alignments of a file that is open for direct I/O: the file
    /// system, then the block device, and in the end a read that is tried.
    pub(crate) fn of(file: &File, kind: FileType) -> Result<Self, OpenError> {
        let physical = if kind.is_block_device() {
            rustix::fs::ioctl_blkpbszget(file).ok()
        } else {
            None
        };
        let (block, memory) = match told_by_file_system(file)? {
            Some(told) => told,
            None if kind.is_block_device() => {
                let block = rustix::fs::ioctl_blksszget(file).map_err(std::io::Error::from)?;
                (block, block)
            }
            None => {
                let block = found_by_trial(file)?;
                (block, block)
            }
        };
        for align in [block, memory] {
            if !align.is_power_of_two() || align > ALIGN_MAX {
                return Err(OpenCause::Alignment(align).into());
            }
        }
        Ok(Self {
            block,
            memory: memory as usize,
            physical,
        })
    }
}

/// The alignments of addresses and of memory, if the file system tells them.
fn told_by_file_system(file: &File) -> Result<Option<(u32, u32)>, OpenError> {
    let asked = StatxFlags::DIOALIGN;
    let Ok(told) = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, asked) else {
        return Ok(None);
    };
    if told.stx_mask & asked.bits() == 0 {
        return Ok(None);
    }
    match (told.stx_dio_offset_align, told.stx_dio_mem_align) {
        (0, _) | (_, 0) => Err(OpenCause::NoDirect.into()),
        told => Ok(Some(told)),
    }
}

/// The smallest block that a read is not refused for. One of nothing proves
/// nothing: an empty file is taken to want the largest.
fn found_by_trial(file: &File) -> Result<u32, OpenError> {
    let [.., largest] = TRIED;
    let no_memory = |_| std::io::Error::from(std::io::ErrorKind::OutOfMemory);
    let mut memory = Folio::zeroed(largest as usize).map_err(no_memory)?;
    for block in TRIED {
        let into = &mut memory[..block as usize];
        match retried(|| rustix::io::pread(file, &mut *into, 0)) {
            Ok(0) => return Ok(largest),
            Ok(_) => return Ok(block),
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(std::io::Error::from(errno).into()),
        }
    }
    Err(OpenCause::NoDirect.into())
}
