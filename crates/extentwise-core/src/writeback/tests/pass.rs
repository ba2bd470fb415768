//! The pass over a folio (W1–W11).

use super::*;
use crate::ordered::ExtentStore;

#[test]
fn w6_a_run_is_cut_at_extents_and_each_piece_is_counted() {
    let mut folio = folio_at(0, &[(0, 8)]);
    let mut table = table_of(&[(0, 3), (3, 16)]);
    let (mut bios, mut device) = (no_limits(), Device::default());
    let report = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
    assert_eq!(device.queued, [(0, 3), (3, 8)]);
    assert_eq!(report.counts.submitted.get(), 8 * B);
    assert_eq!(report.counts.total().get(), 8 * B);
    assert_eq!((report.error, report.folio_dirty), (None, false));
    device.sent.extend(bios.take());
    assert_eq!(device.sent.len(), 2);
    assert!(folio.is_in_writeback());
    assert_eq!(complete(&mut device, &mut folio, &mut table), 1);
    assert!(!folio.is_in_writeback());
    assert_eq!(device.completed, 1);
}

/// Steps to the next piece, which is accepted.
fn next_piece<T: ExtentStore>(
    pass: &mut WritebackPass<[u64; 1], &'static str>,
    folio: &mut Folio,
    table: &mut OrderedTable<T>,
    bios: &mut Bios,
) -> Option<Piece> {
    loop {
        let mut cx = PassContext {
            folio: &mut *folio,
            table: &mut *table,
            bios: &mut *bios,
            observer: &mut (),
        };
        match pass.step(&mut cx) {
            Step::Queue(piece) => return Some(piece),
            Step::Send(_) => {}
            _ => return None,
        }
    }
}

#[test]
fn w6_an_extent_that_changes_between_two_pieces_is_found_anew() {
    for stride in [Stride::Extent, Stride::Block] {
        let mut folio = folio_at(0, &[(0, 1), (2, 3), (4, 7)]);
        let (mut table, mut bios) = (table_of(&[(0, 16)]), no_limits());
        let mut pass = begin(&mut folio, 16 * B, stride);
        let mut next = |table: &mut Table| {
            let piece = next_piece(&mut pass, &mut folio, table, &mut bios)?;
            Some((in_blocks(piece.range), piece.disk.get() / B))
        };
        assert_eq!(next(&mut table), Some(((0, 1), 0)));
        assert_eq!(next(&mut table), Some(((2, 3), 2)));
        // Space was given anew from block 4 on, in two parts.
        let first = table.lookup(FileOffset::ZERO).unwrap().id();
        table.remove(first, FileOffset::ZERO).unwrap();
        for start in [4, 6] {
            let (at, disk) = (FileOffset::new(start * B), DiskByte::new(start * 100 * B));
            let spec = NewOrdered::plain(at, LenBytes::new(2 * B), disk);
            table.insert(spec).unwrap();
        }
        let pieces = core::iter::from_fn(|| next(&mut table));
        let found: heapless::Vec<_, 4> = pieces.collect();
        match stride {
            Stride::Extent => assert_eq!(found, [((4, 6), 400), ((6, 7), 600)]),
            Stride::Block => assert_eq!(found, [((4, 5), 400), ((5, 6), 401), ((6, 7), 600)]),
        }
    }
}

#[test]
fn w6_every_extent_of_a_run_is_found_in_order_and_holes_between_them() {
    let extents: heapless::Vec<_, 8> = (0..8).map(|at| (2 * at, 2 * at + 1)).collect();
    let mut table = table_of(&extents);
    for _ in 0..2 {
        let mut folio = folio_at(0, &[(0, 16)]);
        let (mut bios, mut device) = (no_limits(), Device::default());
        let report = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
        assert_eq!(device.queued, extents);
        assert_eq!(report.counts.submitted.get(), 8 * B);
        assert_eq!(report.counts.missing.get(), 8 * B);
    }
}

#[test]
fn w6_more_extents_than_are_remembered_are_found_too() {
    let mut table = OrderedTable::<FixedStore<64>>::new(block_size());
    for start in 0..64 {
        let (at, disk) = (FileOffset::new(start * B), DiskByte::new(start * 100 * B));
        let spec = NewOrdered::plain(at, LenBytes::new(B), disk);
        table.insert(spec).unwrap();
    }
    let size = LenBytes::new(64 * B);
    let geometry = FolioGeometry::new(FileOffset::ZERO, size, block_size()).unwrap();
    let mut folio = Folio::empty(geometry).unwrap();
    folio.mark_dirty(geometry.all());
    let mut bios = no_limits();
    let mut pass = begin(&mut folio, 64 * B, Stride::Extent);
    let pieces = core::iter::from_fn(|| next_piece(&mut pass, &mut folio, &mut table, &mut bios));
    assert!(
        pieces
            .map(|piece| piece.disk.get() / B)
            .eq((0..64).map(|block| block * 100))
    );
}

#[test]
fn w4_w5_a_run_is_split_at_eof_and_its_tail_truncates_every_extent() {
    let mut folio = folio_at(0, &[(0, 16)]);
    let mut table = table_of(&[(0, 6), (6, 8), (10, 12)]);
    let (mut bios, mut device) = (no_limits(), Device::default());
    let report = pass(&mut folio, &mut table, &mut bios, &mut device, 4 * B - 100);
    assert_eq!(device.queued, [(0, 4)]);
    assert_eq!(device.beyond, [(4, 16)]);
    let zeroed = device.zeroed.unwrap();
    assert_eq!(
        (zeroed.start().get(), zeroed.end().get()),
        (4 * B - 100, 4 * B)
    );
    assert_eq!(report.counts.beyond_eof.get(), 12 * B);
    assert!(!folio.is_dirty());
    let kept = |block: u64| {
        let extent = table.lookup(FileOffset::new(block * B)).unwrap();
        (
            extent.truncated_len().get() / B,
            extent.bytes_left().get() / B,
        )
    };
    assert_eq!((kept(0), kept(6), kept(10)), ((4, 4), (0, 0), (0, 0)));
    let bio = bios.take().unwrap();
    assert_eq!(
        (bio.len().get(), bio.valid_len().get()),
        (4 * B, 4 * B - 100)
    );
}

#[test]
fn w10_a_pass_wholly_past_eof_leaves_the_folio_clean() {
    let mut folio = folio_at(16, &[(0, 16)]);
    let mut table = table_of(&[(16, 32)]);
    let (mut bios, mut device) = (no_limits(), Device::default());
    let report = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
    assert!(!report.folio_dirty);
    assert_eq!(report.writeback, WritebackEnd::NotNow);
    assert!(bios.take().is_none() && device.queued.is_empty());
    assert_eq!(device.completed, 1);
}

#[test]
fn w8_a_refusal_fails_its_piece_and_spares_its_neighbours() {
    let mut folio = folio_at(0, &[(0, 2), (4, 6), (8, 10)]);
    let mut table = table_of(&[(0, 2), (4, 6), (8, 10)]);
    let mut bios = no_limits();
    let mut device = Device {
        refuse: Some(1),
        ..Device::default()
    };
    let report = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
    let file_offset = FileOffset::new(4 * B);
    let error = "no room in the queue";
    assert_eq!(
        report.error,
        Some(PassError::Refused { file_offset, error })
    );
    assert_eq!(report.counts.refused.get(), 2 * B);
    assert_eq!(report.counts.submitted.get(), 4 * B);
    assert!(!folio.is_dirty());
    assert_eq!(folio.writeback().count_in(run_of(0, 16)), 4);
    let refused = table.lookup(file_offset).unwrap();
    assert!(
        refused
            .flags()
            .contains(OrderedFlags::IO_DONE | OrderedFlags::IO_ERROR)
    );
    device.sent.extend(bios.take());
    assert_eq!(complete(&mut device, &mut folio, &mut table), 1);
    let good = table.lookup(FileOffset::ZERO).unwrap();
    assert!(!good.flags().contains(OrderedFlags::IO_ERROR));
}

#[test]
fn w9_the_first_error_is_kept() {
    let mut folio = folio_at(0, &[(0, 2), (4, 6)]);
    let mut table = table_of(&[(4, 6)]);
    let mut bios = no_limits();
    let mut device = Device {
        refuse: Some(0),
        ..Device::default()
    };
    let report = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
    let file_offset = FileOffset::ZERO;
    assert_eq!(
        report.error,
        Some(PassError::MissingOrdered { file_offset })
    );
    assert_eq!(report.counts.total().get(), 4 * B);
    assert_eq!(report.writeback, WritebackEnd::Ended);
}

#[test]
fn w11_a_bio_completed_between_steps_ends_writeback_once() {
    let mut folio = folio_at(0, &[(0, 2), (4, 6)]);
    let mut table = table_of(&[(0, 16)]);
    let mut bios = no_limits();
    let mut steps = begin(&mut folio, 16 * B, Stride::Extent);
    let mut ended = 0;
    loop {
        let mut cx = PassContext {
            folio: &mut folio,
            table: &mut table,
            bios: &mut bios,
            observer: &mut (),
        };
        match steps.step(&mut cx) {
            Step::Send(bio) => {
                complete_bio(&bio, &Ok::<(), ()>(()), &mut table, &mut ());
                let end = folio.end_writeback_bytes(bio.file_range());
                assert_eq!(end, WritebackEnd::NotNow);
            }
            Step::Done(report) => {
                ended += usize::from(report.writeback == WritebackEnd::Ended);
                break;
            }
            _ => {}
        }
    }
    let last = bios.take().unwrap();
    let end = folio.end_writeback_bytes(last.file_range());
    ended += usize::from(end == WritebackEnd::Ended);
    assert_eq!(ended, 1);
}

#[test]
fn w11_a_bio_completed_while_nothing_else_is_queued_does_not_end_writeback() {
    // The gap at block 2 sends the bio before it, and no other piece is in writeback then.
    let mut folio = folio_at(0, &[(0, 4)]);
    let mut table = table_of(&[(0, 2), (3, 4)]);
    let mut bios = no_limits();
    let mut steps = begin(&mut folio, 16 * B, Stride::Extent);
    let mut sent = 0;
    let report = loop {
        let mut cx = PassContext {
            folio: &mut folio,
            table: &mut table,
            bios: &mut bios,
            observer: &mut (),
        };
        match steps.step(&mut cx) {
            Step::Send(bio) => {
                let end = folio.end_writeback_bytes(bio.file_range());
                assert_eq!(
                    (end, folio.is_in_writeback()),
                    (WritebackEnd::NotNow, false)
                );
                sent += 1;
            }
            Step::Done(report) => break report,
            _ => {}
        }
    };
    assert_eq!((sent, report.writeback), (1, WritebackEnd::NotNow));
    let last = bios.take().unwrap();
    let end = folio.end_writeback_bytes(last.file_range());
    assert_eq!(end, WritebackEnd::Ended);
}

#[test]
fn w6_a_block_is_dirty_until_its_own_piece_is_queued() {
    // After redb#450, where a flush marked its pages clean before it wrote them: whoever
    // comes in between two steps must find dirty what is not on its way yet.
    let mut folio = folio_at(0, &[(0, 6), (8, 9), (14, 16)]);
    let submitted = folio.dirty().copied_to([0; 1]).unwrap();
    let mut table = table_of(&[(0, 2), (2, 6)]);
    let mut bios = no_limits();
    let mut steps = begin(&mut folio, 14 * B, Stride::Extent);
    let mut decided = BlockBitmap::<[u64; 1]>::empty(16).unwrap();
    loop {
        let mut cx = PassContext {
            folio: &mut folio,
            table: &mut table,
            bios: &mut bios,
            observer: &mut (),
        };
        let range = match steps.step(&mut cx) {
            Step::Queue(piece) => piece.range,
            Step::BeyondEof(range) | Step::MissingOrdered(range) => range,
            Step::Zero(_) | Step::Send(_) => FileRange::default(),
            Step::Done(_) => break,
        };
        decided.set(folio.geometry().blocks_meeting(range));
        for block in (0..16).map(BlockIndex::new) {
            let waits = submitted.test(block) && !decided.test(block);
            assert_eq!(folio.dirty().test(block), waits);
        }
    }
    assert_eq!(decided, submitted);
}

#[test]
fn w2_no_size_wraps_when_it_is_rounded_up() {
    for i_size in [u64::MAX, u64::MAX - 1, u64::MAX - B + 2, u64::MAX - B + 1] {
        let mut folio = folio_at(0, &[(0, 2)]);
        let mut table = table_of(&[(0, 16)]);
        let (mut bios, mut device) = (no_limits(), Device::default());
        let report = pass(&mut folio, &mut table, &mut bios, &mut device, i_size);
        assert_eq!(report.counts.submitted.get(), 2 * B);
        assert_eq!((report.counts.total().get(), device.zeroed), (2 * B, None));
    }
}

#[test]
fn w1_only_submitted_blocks_in_range_change() {
    let mut folio = folio_at(0, &[(0, 12)]);
    let mut table = table_of(&[(0, 16)]);
    let (mut bios, mut device) = (no_limits(), Device::default());
    let mut submit = BlockBitmap::<[u64; 1]>::empty(16).unwrap();
    submit.set(run_of(0, 8));
    let size = FileOffset::new(16 * B);
    let steps =
        WritebackPass::begin(&mut folio, submit, bytes(4, 10), size, Stride::Extent).unwrap();
    let report = run(steps, &mut folio, &mut table, &mut bios, &mut device);
    assert_eq!(device.queued, [(4, 8)]);
    assert!(report.folio_dirty);
    let dirty = folio.dirty();
    let mut dirty = dirty.runs(run_of(0, 16));
    assert_eq!(dirty.next(), Some(run_of(0, 4)));
    assert_eq!(dirty.next(), Some(run_of(8, 12)));
}

#[test]
fn w1_input_that_breaks_a_rule_is_refused_and_holds_nothing() {
    let mut folio = folio_at(0, &[(0, 2)]);
    let size = FileOffset::new(16 * B);
    let whole = folio.geometry().range();
    let mut begin = |submit: BlockBitmap<[u64; 1]>, range| {
        WritebackPass::<_, ()>::begin(&mut folio, submit, range, size, Stride::Extent).err()
    };
    let small = BlockBitmap::empty(8).unwrap();
    assert_eq!(
        begin(small, whole),
        Some(PassInputError::BitmapSize {
            bitmap: 8,
            folio: 16
        })
    );
    let mut clean = BlockBitmap::empty(16).unwrap();
    clean.set(run_of(1, 3));
    assert_eq!(
        begin(clean, whole),
        Some(PassInputError::NotDirty(BlockIndex::new(2)))
    );
    let none = BlockBitmap::empty(16).unwrap();
    let odd = FileRange::new(FileOffset::new(1), FileOffset::new(B)).unwrap();
    assert_eq!(begin(none, odd), Some(PassInputError::Range(odd)));
    assert_eq!(
        begin(none, bytes(15, 17)),
        Some(PassInputError::Range(bytes(15, 17)))
    );
    folio.start_writeback(run_of(0, 1));
    assert_eq!(folio.end_writeback(run_of(0, 1)), WritebackEnd::Ended);
}

#[test]
fn after_the_end_a_pass_reports_nothing_more() {
    let mut folio = folio_at(0, &[(0, 2)]);
    let mut table = table_of(&[(0, 16)]);
    let mut bios = no_limits();
    let mut steps = begin(&mut folio, 16 * B, Stride::Extent);
    let mut reports = 0;
    for _ in 0..8 {
        let mut cx = PassContext {
            folio: &mut folio,
            table: &mut table,
            bios: &mut bios,
            observer: &mut (),
        };
        steps.refuse("nothing was offered", &mut cx);
        if let Step::Done(report) = steps.step(&mut cx) {
            reports += usize::from(!report.counts.total().is_zero());
        } else {
            // Accepts the piece, so that the refusal above finds none.
            let _ = steps.step(&mut cx);
        }
    }
    assert!(reports <= 1);
}

#[test]
fn stepping_by_blocks_decides_the_same_as_by_extents() {
    for bits in 0..1_u64 << 10 {
        for i_size in [0, 1, 5 * B - 1, 5 * B, 5 * B + 1, u64::MAX] {
            let outcome = |stride| {
                let mut folio = folio_at(0, &[]);
                for block in (0..10).filter(|block| bits >> block & 1 == 1) {
                    folio.mark_dirty(run_of(block, block + 1));
                }
                let mut table = table_of(&[(0, 3), (4, 6), (6, 16)]);
                let (mut bios, mut device) = (no_limits(), Device::default());
                let steps = begin(&mut folio, i_size, stride);
                let report = run(steps, &mut folio, &mut table, &mut bios, &mut device);
                device.sent.extend(bios.take());
                let extents = table.iter_in(bytes(0, 16)).copied();
                (
                    report,
                    device.sent,
                    extents.collect::<heapless::Vec<_, 8>>(),
                )
            };
            assert_eq!(outcome(Stride::Extent), outcome(Stride::Block));
        }
    }
}
