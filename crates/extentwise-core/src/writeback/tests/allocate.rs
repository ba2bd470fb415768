//! Delayed allocation (W14).

use super::*;

/// Gives two blocks at a time, until it has none left.
struct Allocator {
    left: usize,
    misplace: bool,
    released: usize,
}

impl Allocate for Allocator {
    type Error = &'static str;

    fn allocate(&mut self, range: FileRange) -> Result<NewOrdered, &'static str> {
        self.left = self.left.checked_sub(1).ok_or("no space")?;
        let len = LenBytes::new(range.len().get().min(2 * B));
        let start = if self.misplace {
            15 * B
        } else {
            range.start().get()
        };
        Ok(NewOrdered::plain(
            FileOffset::new(start),
            len,
            DiskByte::new(start),
        ))
    }
    fn release(&mut self, _: NewOrdered) {
        self.released += 1;
    }
}

fn allocate(
    table: &mut Table,
    allocator: &mut Allocator,
) -> (Result<(), AllocationFailure<&'static str>>, usize, usize) {
    let folio = folio_at(0, &[(0, 10)]);
    let mut submit = folio.dirty().copied_to([0; 1]).unwrap();
    let done = allocate_missing(folio.geometry(), &mut submit, table, allocator);
    let left = submit.count_in(run_of(0, 16));
    (done, left, table.len())
}

#[test]
fn w14_every_gap_gets_extents_and_those_there_stay() {
    let mut table = table_of(&[(3, 5)]);
    let mut allocator = Allocator {
        left: 99,
        misplace: false,
        released: 0,
    };
    // [0,2) [2,3) (3,5) [5,7) [7,9) [9,10)
    assert_eq!(allocate(&mut table, &mut allocator), (Ok(()), 10, 6));
}

#[test]
fn w14_a_failed_allocation_leaves_the_submit_bitmap_and_keeps_its_class() {
    let mut table = table_of(&[(3, 5), (8, 9)]);
    let mut allocator = Allocator {
        left: 1,
        misplace: false,
        released: 0,
    };
    let (done, left, extents) = allocate(&mut table, &mut allocator);
    let failed = FileOffset::new(2 * B);
    assert_eq!(done, Err(AllocationFailure::Allocator(failed, "no space")));
    assert_eq!((left, extents, allocator.released), (5, 3, 0));
}

#[test]
fn w14_an_allocation_that_cannot_be_used_is_released() {
    let mut table = table_of(&[]);
    let mut allocator = Allocator {
        left: 1,
        misplace: true,
        released: 0,
    };
    let (done, left, extents) = allocate(&mut table, &mut allocator);
    assert_eq!(done, Err(AllocationFailure::Misplaced(FileOffset::ZERO)));
    assert_eq!((left, extents, allocator.released), (0, 0, 1));
    let mut full = table_of(&[
        (20, 21),
        (22, 23),
        (24, 25),
        (26, 27),
        (28, 29),
        (30, 31),
        (32, 33),
        (34, 35),
    ]);
    let mut allocator = Allocator {
        left: 9,
        misplace: false,
        released: 0,
    };
    let (done, left, _) = allocate(&mut full, &mut allocator);
    let error = InsertError::Full;
    assert_eq!(
        done,
        Err(AllocationFailure::Insert(FileOffset::ZERO, error))
    );
    assert_eq!((left, allocator.released), (0, 1));
}
