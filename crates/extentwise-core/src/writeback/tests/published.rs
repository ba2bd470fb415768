//! Mistakes of the published patch, put in beside the pass: the tests tell the
//! two apart.

use super::*;

/// What a missing extent did to its neighbours.
#[derive(Debug, PartialEq)]
struct AfterMissing {
    doubles: u64,
    /// Blocks finished without ever being written.
    lost: u64,
}

/// The mistake of the published patch: where the extent is missing, the whole
/// rest of the run is cleaned and finished, but the loop steps one block on.
fn published_missing(folio: &mut Folio, table: &mut Table, device: &mut Device) {
    let mut cur = 0;
    while let Some(run) = folio.dirty().next_run(run_of(cur, 16)) {
        let (start, end) = (run.start().get(), run.end().get());
        let at = folio.geometry().offset_of(run.start());
        if table.lookup(at).is_some() {
            folio.clear_dirty(run);
            device.queued.push((start as u64, end as u64)).unwrap();
            table.finish(bytes(start as u64, end as u64), IoOutcome::Skipped, device);
            cur = end;
        } else {
            let rest = bytes(start as u64, end as u64);
            table.finish(rest, IoOutcome::Skipped, device);
            folio.clear_dirty(run_of(start, start + 1));
            cur = start + 1;
        }
    }
}

#[test]
fn w7_a_missing_extent_does_not_finish_its_neighbour_as_the_published_patch_does() {
    let observe = |published: bool| {
        let mut folio = folio_at(0, &[(0, 4)]);
        let mut table = table_of(&[(1, 4)]);
        let (mut bios, mut device) = (no_limits(), Device::default());
        if published {
            published_missing(&mut folio, &mut table, &mut device);
        } else {
            let report = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
            assert_eq!(device.missing, [(0, 1)]);
            let file_offset = FileOffset::ZERO;
            assert_eq!(
                report.error,
                Some(PassError::MissingOrdered { file_offset })
            );
            device.sent.extend(bios.take());
        }
        let unwritten = device.completed as u64;
        complete(&mut device, &mut folio, &mut table);
        AfterMissing {
            doubles: device.doubles,
            lost: unwritten,
        }
    };
    let right = AfterMissing {
        doubles: 0,
        lost: 0,
    };
    assert_eq!(observe(false), right);
    assert_ne!(observe(true), right);
}

/// The mistake of the published patch: the cut is measured from the start of
/// the range, also for an extent that begins behind it.
fn published_cut(extent: &OrderedExtent, range: FileRange) -> u64 {
    let kept = range.start().get().wrapping_sub(extent.file_offset().get());
    extent.truncated_len().get().min(kept)
}

#[test]
fn o3_a_hole_before_the_extent_does_not_underflow_as_the_published_patch_does() {
    let range = bytes(4, 16);
    let mut table = table_of(&[(8, 9)]);
    let published = published_cut(table.lookup(FileOffset::new(8 * B)).unwrap(), range);
    let done = table.truncate(range);
    let expected = Truncated {
        extents: 1,
        hole_bytes: LenBytes::new(11 * B),
    };
    assert_eq!(done, expected);
    let kept = table
        .lookup(FileOffset::new(8 * B))
        .unwrap()
        .truncated_len();
    assert_eq!(kept, LenBytes::ZERO);
    assert_ne!(
        published, 0,
        "the mistake keeps bytes past the end of the file"
    );
}
