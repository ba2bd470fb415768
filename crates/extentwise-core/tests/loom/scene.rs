//! What the scenes share: blocks of 4 KiB, an extent table, a folio, threads.

use std::sync::Arc;

use extentwise_core::folio::{FolioState, SharedFolio};
use extentwise_core::geometry::{
    BlockIndex, BlockRange, BlockSize, DiskByte, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use extentwise_core::ordered::{
    FinishObserver, FixedStore, IoOutcome, NewOrdered, OrderedExtent, SharedTable,
};
use loom::thread;

/// Bytes of a block.
pub(crate) const BLOCK: u64 = 4096;

pub(crate) type Extents = SharedTable<FixedStore<4>>;
pub(crate) type Folio = SharedFolio<[u64; 3]>;

/// The bytes of the blocks `[start, end)` of the file.
pub(crate) fn bytes(start: u64, end: u64) -> FileRange {
    FileRange::new(block(start), block(end)).expect("a range starts before it ends")
}

/// Where block `index` of the file begins.
pub(crate) fn block(index: u64) -> FileOffset {
    FileOffset::new(index * BLOCK)
}

/// The blocks `[start, end)` of the folio.
pub(crate) fn run(start: usize, end: usize) -> BlockRange {
    BlockRange::new(BlockIndex::new(start), BlockIndex::new(end))
        .expect("a run starts before it ends")
}

fn block_size() -> BlockSize {
    BlockSize::new(BLOCK).expect("4096 is a block size")
}

/// An extent over these blocks. Neighbours in the file are none on the device.
pub(crate) fn extent(start: u64, end: u64) -> NewOrdered {
    let len = LenBytes::new((end - start) * BLOCK);
    NewOrdered::plain(block(start), len, DiskByte::new(start * 16 * BLOCK))
}

/// A table with an extent over each of these block ranges.
pub(crate) fn extents(ranges: &[(u64, u64)]) -> Extents {
    let table = Extents::new(block_size());
    for (start, end) in ranges {
        let inserted = table.insert(extent(*start, *end));
        inserted.expect("the scene's extents do not overlap");
    }
    table
}

/// A folio of four blocks at the start of the file, uptodate, with these dirty.
pub(crate) fn folio(dirty: BlockRange) -> Folio {
    let geometry = FolioGeometry::new(FileOffset::ZERO, LenBytes::new(4 * BLOCK), block_size());
    let state = FolioState::empty(geometry.expect("four blocks are a folio"));
    let mut state = state.expect("four bits fit in each of three words");
    state.mark_folio_uptodate();
    state.mark_dirty(dirty);
    Folio::new(state)
}

/// All of `range` was written.
pub(crate) fn written(range: FileRange) -> IoOutcome {
    IoOutcome::Written {
        valid_end: range.end(),
    }
}

/// Keeps what a table tells of.
#[derive(Default)]
pub(crate) struct Told {
    /// The extents handed out as done, as they were then.
    pub(crate) completed: Vec<OrderedExtent>,
    /// Bytes reported as finished twice.
    pub(crate) double_bytes: u64,
}

impl FinishObserver for Told {
    fn completed(&mut self, extent: &OrderedExtent) {
        self.completed.push(*extent);
    }

    fn double_finish(&mut self, range: FileRange) {
        self.double_bytes += range.len().get();
    }
}

/// Starts a thread over a shared object. The counts of `Arc` are not what is
/// explored, so it is the standard library's.
pub(crate) fn spawn<O, R>(
    object: &Arc<O>,
    act: impl FnOnce(&O) -> R + Send + 'static,
) -> thread::JoinHandle<R>
where
    O: Send + Sync + 'static,
    R: Send + 'static,
{
    let object = Arc::clone(object);
    thread::spawn(move || act(&object))
}

/// What the thread answered.
pub(crate) fn join<R>(thread: thread::JoinHandle<R>) -> R {
    thread.join().expect("a thread of the scene panicked")
}
