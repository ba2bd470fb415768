//! Pieces joined into bios (S1, S2).

use super::*;

#[test]
fn s1_pieces_of_two_extents_or_with_a_gap_do_not_share_a_bio() {
    let mut folio = folio_at(0, &[(0, 2), (3, 4)]);
    let mut table = Table::new(block_size());
    // Adjacent on the device, adjacent in the file, but two extents.
    for (start, end) in [(0, 1), (1, 16)] {
        let len = LenBytes::new((end - start) * B);
        let spec = NewOrdered::plain(FileOffset::new(start * B), len, DiskByte::new(start * B));
        table.insert(spec).unwrap();
    }
    let (mut bios, mut device) = (no_limits(), Device::default());
    let _ = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
    device.sent.extend(bios.take());
    let sent = device.sent.iter().map(|bio| in_blocks(bio.file_range()));
    assert!(sent.eq([(0, 1), (1, 2), (3, 4)]));
}

#[test]
fn s1_a_bio_goes_on_across_folios_and_s2_folio_borders_make_segments() {
    let mut table = table_of(&[(0, 64)]);
    let (mut bios, mut device) = (no_limits(), Device::default());
    for (pos, dirty) in [(0, (12, 16)), (16, (0, 16)), (32, (0, 1))] {
        let mut folio = folio_at(pos, &[dirty]);
        let _ = pass(&mut folio, &mut table, &mut bios, &mut device, 64 * B);
    }
    let bio = bios.take().unwrap();
    assert!(device.sent.is_empty());
    let parts = bio
        .segments()
        .iter()
        .map(|segment| in_blocks(segment.range()));
    assert!(parts.eq([(12, 16), (16, 32), (32, 33)]));
    assert_eq!(bio.disk_bytenr(), DiskByte::new(12 * B));
}

#[test]
fn s2_bios_are_filled_to_the_brim() {
    let limits = |max_bytes, max_segments| {
        let max_bytes = Some(LenBytes::new(max_bytes));
        BioLimits::new(max_bytes, NonZeroUsize::new(max_segments), block_size()).unwrap()
    };
    let sent = |limits| {
        let mut table = table_of(&[(0, 64)]);
        let (mut bios, mut device) = (Bios::new(limits), Device::default());
        for pos in [0, 16] {
            let mut folio = folio_at(pos, &[(0, 16)]);
            let _ = pass(&mut folio, &mut table, &mut bios, &mut device, 64 * B);
        }
        device.sent.extend(bios.take());
        let lens = device.sent.iter().map(|bio| bio.len().get() / B);
        lens.collect::<heapless::Vec<_, 16>>()
    };
    assert_eq!(sent(limits(6 * B, 8)), [6, 6, 6, 6, 6, 2]);
    assert_eq!(sent(limits(1024 * B, 1)), [16, 16]);
    assert_eq!(sent(BioLimits::UNLIMITED), [32]);
    let odd = LenBytes::new(B + 1);
    assert_eq!(
        BioLimits::new(Some(odd), None, block_size()),
        Err(BioLimitsError(odd))
    );
    let none = LenBytes::ZERO;
    assert_eq!(
        BioLimits::new(Some(none), None, block_size()),
        Err(BioLimitsError(none))
    );
}
