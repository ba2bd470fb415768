//! Writing through the store as an engine does, and reading what it shows.

// Each test uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;

use extentwise_core::geometry::{BlockSize, DiskByte, FileOffset, FileRange, LenBytes};
use extentwise_core::ordered::{
    IoOutcome, NewOrdered, OrderedExtent, OrderedTable, Outcome, TreeStore,
};
use extentwise_device::{Device, DeviceGeometry, read_exact, write_all};
use extentwise_engine::{ExtentKind, FileId, Mapping};
use extentwise_thin::ThinStore;

pub(crate) const BLOCK: u64 = BLOCK_LEN as u64;
pub(crate) const BLOCK_LEN: usize = 512;
/// Blocks of the device: both superblocks and some.
pub(crate) const BLOCKS: u64 = 136;
/// Blocks of each file that are looked at.
pub(crate) const CELLS: u64 = 16;

pub(crate) fn geometry() -> DeviceGeometry {
    let geometry = DeviceGeometry::new(512, 512).unwrap();
    geometry.with_capacity(LenBytes::new(BLOCKS * BLOCK))
}

pub(crate) fn range(start: u64, end: u64) -> FileRange {
    FileRange::new(FileOffset::new(start * BLOCK), FileOffset::new(end * BLOCK)).unwrap()
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Written,
    Failed,
    /// All is written, and cut off behind so many blocks before it is recorded.
    Cut(u64),
}

/// The ordered extent of `spec` when it is done.
pub(crate) fn done(spec: NewOrdered, fate: Fate) -> (OrderedExtent, Outcome) {
    let mut table = OrderedTable::<TreeStore>::new(BlockSize::MIN);
    let id = table.insert(spec).unwrap();
    let all = FileRange::at(spec.file_offset, spec.num_bytes).unwrap();
    if let Fate::Cut(blocks) = fate {
        let start = FileOffset::new(all.start().get() + blocks * BLOCK);
        table.truncate(FileRange::new(start, all.end()).unwrap());
    }
    let valid_end = all.end();
    let outcome = match fate {
        Fate::Failed => IoOutcome::Failed,
        Fate::Written | Fate::Cut(_) => IoOutcome::Written { valid_end },
    };
    table.finish(all, outcome, &mut ());
    let extent = table.remove(id, spec.file_offset).unwrap();
    let outcome = extent.outcome().unwrap();
    (extent, outcome)
}

/// Allocates the start of a range that was reserved, and writes `token` there.
pub(crate) fn submit(
    store: &mut ThinStore,
    device: &impl Device,
    file: FileId,
    range: FileRange,
    token: u64,
) -> NewOrdered {
    let spec = store.allocate(file, range).unwrap();
    let mut bytes = [0; BLOCK_LEN];
    bytes[..8].copy_from_slice(&token.to_le_bytes());
    for nth in 0..spec.num_bytes.get() / BLOCK {
        let at = DiskByte::new(spec.disk_bytenr.get() + nth * BLOCK);
        write_all(device, at, &[&bytes]).unwrap();
    }
    spec
}

/// Writes `token` to the blocks `[start, end)` of a file.
pub(crate) fn write(
    store: &mut ThinStore,
    device: &impl Device,
    file: FileId,
    (start, end): (u64, u64),
    token: u64,
) {
    store.reserve(file, range(start, end)).unwrap();
    let mut at = start;
    while at < end {
        let spec = submit(store, device, file, range(at, end), token);
        let (extent, outcome) = done(spec, Fate::Written);
        store.complete(file, &extent, outcome).unwrap();
        at += spec.num_bytes.get() / BLOCK;
    }
}

/// A block as a reader sees it, and whether it has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Hole,
    Unwritten,
    Data(u64),
}

/// Sizes and blocks of all files.
pub(crate) type State = BTreeMap<FileId, (u64, Vec<Cell>)>;

/// What the store and its device show.
pub(crate) fn state(store: &ThinStore, device: &impl Device) -> State {
    let mut store = store.clone();
    let files: Vec<FileId> = store.files().collect();
    let files = files.into_iter().map(|file| {
        let size = store.size(file).unwrap().get();
        let cells = (0..CELLS).map(|at| cell(&mut store, device, file, at));
        (file, (size, cells.collect()))
    });
    files.collect()
}

fn cell(store: &mut ThinStore, device: &impl Device, file: FileId, at: u64) -> Cell {
    let asked = range(at, at + 1);
    let extent = store.map(file, asked).unwrap();
    assert!(extent.range.covers(asked), "{extent:?}");
    match extent.kind {
        ExtentKind::Hole => Cell::Hole,
        ExtentKind::Unwritten(_) => Cell::Unwritten,
        ExtentKind::Data(disk) => {
            let skip = asked.start().distance_from(extent.range.start());
            let mut bytes = [0; BLOCK_LEN];
            read_exact(device, disk.checked_add(skip).unwrap(), &mut bytes).unwrap();
            Cell::Data(u64::from_le_bytes(bytes[..8].try_into().unwrap()))
        }
    }
}
