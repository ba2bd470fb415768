//! Three writes into one folio whose first block alone is uptodate: a copy that stops short,
//! the same write again and whole, and one whose read fails.

use core::hint::black_box;

use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{BlockIndex, BlockRange, BlockSize, FileOffset};
use extentwise_core::geometry::{FileRange, FolioGeometry, LenBytes};
use extentwise_core::write::{
    Ask, BufferedWrite, Mapping, MappingFlags, MappingKind, MappingState, WriteContext, WriteError,
};

use crate::Fault;

const BLOCK: usize = 4096;
const FOLIO: usize = 4 * BLOCK;
/// From the inside of the first block to the inside of the second, which is not mapped yet.
const WRITE: (usize, usize) = (100, 6000);
/// Inside the third block, which the device holds.
const OVERWRITE: (usize, usize) = (9000, 9100);

const STALE: u8 = 0xee;
const OLD: u8 = 0x11;
const WRITTEN: u8 = 0x77;

/// More steps than any of these writes needs.
const STEPS_MAX: usize = 32;

/// The device could not read.
#[derive(Clone, PartialEq)]
struct Unreadable;

/// A folio at position 0 of its file, with its bytes.
struct Cached {
    folio: FolioState<[u64; 3]>,
    maps: MappingState<[u64; 4]>,
    bytes: [u8; FOLIO],
}

/// How a write went.
struct Trace {
    end: Ask<Unreadable>,
    maps: usize,
    zeroes: heapless::Vec<FileRange, 4>,
    reads: usize,
    published: Option<FileOffset>,
}

pub(crate) fn run() -> Result<(), Fault> {
    let mut cached = Cached::new()?;

    let short = cached.write(WRITE, 1000)?;
    Fault::Asks.unless((short.maps, short.reads) == (1, 0))?;
    let head = range((BLOCK, WRITE.1))?;
    let tail = range((WRITE.1, 2 * BLOCK))?;
    Fault::Asks.unless(short.zeroes == [tail, head])?;
    Fault::Committed.unless(short.end == Ask::Committed(LenBytes::ZERO))?;
    Fault::Committed.unless(short.published.is_none())?;
    Fault::Bytes.unless(cached.bytes[BLOCK..2 * BLOCK].iter().all(|&byte| byte == 0))?;
    Fault::BlockState.unless(cached.are_uptodate_and_dirty(2))?;

    let len = WRITE.1 - WRITE.0;
    let whole = cached.write(WRITE, len)?;
    Fault::Asks.unless((whole.maps, whole.reads, whole.zeroes.len()) == (0, 0, 0))?;
    Fault::Committed.unless(whole.end == Ask::Committed(LenBytes::new(len as u64)))?;
    Fault::Committed.unless(whole.published == Some(FileOffset::new(WRITE.1 as u64)))?;
    Fault::BlockState.unless(cached.are_uptodate_and_dirty(2))?;
    let expected = [(100, OLD), (len, WRITTEN), (2 * BLOCK - WRITE.1, 0)];
    Fault::Bytes.unless(begins_with(&cached.bytes, &expected))?;
    Fault::Bytes.unless(cached.bytes[2 * BLOCK..].iter().all(|&byte| byte == STALE))?;

    let failed = cached.write(OVERWRITE, OVERWRITE.1 - OVERWRITE.0)?;
    let block = BlockIndex::new(2);
    let error = Unreadable;
    Fault::FailedRead.unless(failed.end == Ask::Failed(WriteError::Read { block, error }))?;
    Fault::FailedRead.unless(failed.reads == 1 && failed.zeroes.is_empty())?;
    Fault::BlockState.unless(!cached.folio.is_block_uptodate(block))?;
    Fault::BlockState.unless(!cached.folio.dirty().test(block))
}

impl Cached {
    fn new() -> Result<Self, Fault> {
        let block_size = BlockSize::new(BLOCK as u64).map_err(|_| Fault::Setup)?;
        let size = LenBytes::new(FOLIO as u64);
        let geometry =
            FolioGeometry::new(FileOffset::ZERO, size, block_size).map_err(|_| Fault::Setup)?;
        let mut folio = FolioState::empty(geometry).map_err(|_| Fault::Setup)?;
        let mut maps = MappingState::empty(geometry).map_err(|_| Fault::Setup)?;
        let first = BlockRange::one(BlockIndex::new(0));
        folio.mark_uptodate(first);
        maps.replace(first, MappingFlags::MAPPED);
        let mut bytes = [STALE; FOLIO];
        bytes[..BLOCK].fill(OLD);
        Ok(Self { folio, maps, bytes })
    }

    /// One write of which `copied` bytes arrive. The second block is newly allocated, the
    /// others lie on a device that cannot read.
    fn write(&mut self, at: (usize, usize), copied: usize) -> Result<Trace, Fault> {
        let mut write =
            BufferedWrite::begin(&self.folio, range(black_box(at))?).map_err(|_| Fault::Setup)?;
        let mut cx = WriteContext {
            folio: &mut self.folio,
            maps: &mut self.maps,
        };
        let mut trace = Trace {
            end: Ask::WaitForReads,
            maps: 0,
            zeroes: heapless::Vec::new(),
            reads: 0,
            published: None,
        };
        for _ in 0..STEPS_MAX {
            match write.step(&mut cx) {
                Ask::Map(block) => {
                    trace.maps += 1;
                    let kind = match block.get() {
                        1 => MappingKind::New,
                        _ => MappingKind::Mapped,
                    };
                    let range = cx.folio.geometry().bytes_of(BlockRange::one(block));
                    write.mapped(Ok(Mapping { kind, range }), &mut cx);
                }
                Ask::Zero(range) => {
                    slice(&mut self.bytes, range)?.fill(0);
                    trace.zeroes.push(range).map_err(|_| Fault::Asks)?;
                }
                Ask::Read(block) => {
                    trace.reads += 1;
                    write.read_done(block, Err(Unreadable), &mut cx);
                }
                Ask::Copy => {
                    self.bytes[at.0..at.0 + copied].fill(WRITTEN);
                    write.commit(LenBytes::new(copied as u64), &mut cx);
                }
                Ask::PublishSize(end) => trace.published = Some(end),
                end @ (Ask::Committed(_) | Ask::Failed(_)) => {
                    trace.end = end;
                    return Ok(trace);
                }
                Ask::WaitForReads => return Err(Fault::Endless),
            }
        }
        Err(Fault::Endless)
    }

    /// Whether the first `count` blocks are uptodate, dirty and not new, and no others.
    fn are_uptodate_and_dirty(&self, count: usize) -> bool {
        (0..FOLIO / BLOCK).all(|index| {
            let block = BlockIndex::new(index);
            let settled = index < count;
            self.folio.is_block_uptodate(block) == settled
                && self.folio.dirty().test(block) == settled
                && !self.maps.flags(block).contains(MappingFlags::NEW)
        })
    }
}

fn range((start, end): (usize, usize)) -> Result<FileRange, Fault> {
    FileRange::new(FileOffset::new(start as u64), FileOffset::new(end as u64)).ok_or(Fault::Setup)
}

fn slice(bytes: &mut [u8], range: FileRange) -> Result<&mut [u8], Fault> {
    let start = usize::try_from(range.start().get()).map_err(|_| Fault::Asks)?;
    let end = usize::try_from(range.end().get()).map_err(|_| Fault::Asks)?;
    bytes.get_mut(start..end).ok_or(Fault::Asks)
}

/// Whether `bytes` begins with runs of so many equal bytes.
fn begins_with(bytes: &[u8], runs: &[(usize, u8)]) -> bool {
    let expected = runs
        .iter()
        .flat_map(|&(len, byte)| core::iter::repeat_n(byte, len));
    let len = runs.iter().map(|(len, _)| len).sum();
    bytes.iter().copied().take(len).eq(expected)
}
