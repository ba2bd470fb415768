//! Delayed allocation: places for dirty blocks that have none yet (W14).

use crate::bitmap::BlockBitmap;
use crate::geometry::{FileOffset, FileRange, FolioGeometry};
use crate::ordered::{ExtentStore, InsertError, NewOrdered, OrderedExtent, OrderedTable};

/// Gives dirty ranges a place on the device.
pub trait Allocate {
    /// Why nothing could be allocated; it comes back as it is (E3).
    type Error;

    /// Allocates for the start of `range`; the answer may be shorter or longer
    /// than asked, but begins at `range.start()`.
    fn allocate(&mut self, range: FileRange) -> Result<NewOrdered, Self::Error>;

    /// Takes back an allocation that the table of ordered extents refused.
    fn release(&mut self, unused: NewOrdered);
}

/// Why part of a folio has no place on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationFailure<E> {
    /// The allocator failed at this offset, with its error as it came.
    Allocator(FileOffset, E),
    /// The allocator answered, at this offset, something that the table
    /// refused; the allocation was released.
    Insert(FileOffset, InsertError),
    /// The allocator answered, at this offset, an extent that begins elsewhere;
    /// the allocation was released.
    Misplaced(FileOffset),
}

/// Turns each run of `submit` that has no ordered extent into ordered extents,
/// before the pass begins (W14).
///
/// When allocation fails, blocks that have an ordered extent stay in `submit`;
/// the others from there on leave it, stay dirty, and are the error policy's to
/// decide (C2). The first failure is answered. Nothing that was allocated is
/// lost: it is in the table or was released.
pub fn allocate_missing<W, T, A>(
    geometry: FolioGeometry,
    submit: &mut BlockBitmap<W>,
    table: &mut OrderedTable<T>,
    allocator: &mut A,
) -> Result<(), AllocationFailure<A::Error>>
where
    W: AsRef<[u64]> + AsMut<[u64]>,
    T: ExtentStore,
    A: Allocate,
{
    let mut failure = None;
    let mut rest = geometry.all();
    while let Some(run) = submit.next_run(rest) {
        let mut range = geometry.bytes_of(run);
        while !range.is_empty() {
            let covered = table
                .lookup(range.start())
                .map(|extent| extent.range().end());
            if let Some(end) = covered {
                range = FileRange::clamped(end, range.end());
                continue;
            }
            let next = table.first_in(range).map(OrderedExtent::file_offset);
            let gap = FileRange::clamped(range.start(), next.unwrap_or(range.end()));
            if failure.is_none()
                && let Err(error) = allocate_at(gap, table, allocator)
            {
                failure = Some(error);
            }
            if failure.is_some() {
                submit.clear(geometry.blocks_meeting(gap));
                range = FileRange::clamped(gap.end(), range.end());
            }
        }
        rest = crate::geometry::BlockRange::clamped(run.end().get(), geometry.blocks());
    }
    failure.map_or(Ok(()), Err)
}

fn allocate_at<T: ExtentStore, A: Allocate>(
    gap: FileRange,
    table: &mut OrderedTable<T>,
    allocator: &mut A,
) -> Result<(), AllocationFailure<A::Error>> {
    let at = gap.start();
    let spec = allocator
        .allocate(gap)
        .map_err(|error| AllocationFailure::Allocator(at, error))?;
    if spec.file_offset != at {
        allocator.release(spec);
        return Err(AllocationFailure::Misplaced(at));
    }
    table.insert(spec).map(|_| ()).map_err(|error| {
        allocator.release(spec);
        AllocationFailure::Insert(at, error)
    })
}
