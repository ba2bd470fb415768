//! What a flush makes durable stays, and everything else may go.

use std::collections::BTreeSet;

use extentwise_device::write_all;

use super::*;

fn device(block: u32) -> VolatileDevice {
    VolatileDevice::new(DeviceGeometry::new(block, block).unwrap())
}

fn put(device: &VolatileDevice, block: u64, byte: u8) {
    let len = device.geometry().logical_block();
    let at = DiskByte::new(block * u64::from(len));
    write_all(device, at, &[&vec![byte; len as usize]]).unwrap();
}

/// The first byte of each sector.
fn sectors(image: &Image, count: usize) -> Vec<u8> {
    let bytes = image.bytes(DiskByte::ZERO, count * SECTOR);
    bytes.iter().step_by(SECTOR).copied().collect()
}

fn outcomes(images: CrashImages, count: usize) -> Vec<Vec<u8>> {
    images.map(|crash| sectors(&crash.image, count)).collect()
}

#[test]
fn c8_what_was_not_flushed_is_lost_and_what_was_stays() {
    let device = device(512);
    put(&device, 0, 1);
    device.flush().unwrap();
    put(&device, 0, 2);
    put(&device, 1, 2);
    assert_eq!(sectors(&device.snapshot(), 2), [2, 2], "reads see it");
    assert_eq!(sectors(&device.durable(), 2), [1, 0]);
    device.crash(&[]);
    assert_eq!(sectors(&device.snapshot(), 2), [1, 0]);
    assert!(device.unflushed().is_empty());
}

#[test]
fn c8_every_combination_of_unflushed_blocks_comes_once() {
    let device = device(512);
    for block in 0..4 {
        put(&device, block, 1);
    }
    let images = device.crash_images(10, 0, 0);
    assert!(images.is_exact());
    let all = outcomes(images, 4);
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (16, 16));
}

#[test]
fn c8_a_block_written_twice_holds_any_of_its_three_contents() {
    let device = device(512);
    put(&device, 0, 1);
    put(&device, 0, 2);
    let mut all = outcomes(device.crash_images(10, 0, 0), 1);
    all.sort();
    assert_eq!(all, [[0], [1], [2]]);
}

#[test]
fn blocks_are_torn_between_sectors_on_both_sides() {
    let device = device(2048);
    put(&device, 0, 1);
    let all: BTreeSet<_> = outcomes(device.crash_images(10, 0, 0), 4)
        .into_iter()
        .collect();
    let expected: [[u8; 4]; 8] = [
        [0, 0, 0, 0],
        [1, 1, 1, 1],
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [0, 0, 0, 1],
        [0, 0, 1, 1],
        [0, 1, 1, 1],
    ];
    let expected: BTreeSet<Vec<u8>> = expected.iter().map(|image| image.to_vec()).collect();
    assert_eq!(all, expected);
}

#[test]
fn more_pieces_than_are_searched_are_sampled_by_the_seed() {
    let device = device(1024);
    for block in 0..12 {
        put(&device, block, 1);
    }
    let sampled = |seed| {
        let images = device.crash_images(10, 100, seed);
        assert!(!images.is_exact());
        outcomes(images, 24)
    };
    let all = sampled(1);
    assert_eq!(all.len(), 100);
    assert_eq!((&all[0], &all[1]), (&vec![0; 24], &vec![1; 24]));
    assert_eq!(all, sampled(1));
    assert_ne!(all, sampled(2));
    let torn = |image: &Vec<u8>| image.chunks(2).any(|block| block[0] != block[1]);
    assert!(all.iter().any(torn));
    assert!(all.iter().collect::<BTreeSet<_>>().len() > 90);
}

#[test]
fn the_fates_of_an_image_lead_to_it_again() {
    let device = device(1024);
    (0..5).for_each(|block| put(&device, block, 1));
    device.flush().unwrap();
    (3..8).for_each(|block| put(&device, block, 2));
    let durable = device.durable();
    for crash in device.crash_images(10, 0, 0) {
        let again = VolatileDevice::from_image(device.geometry(), durable.clone());
        (3..8).for_each(|block| put(&again, block, 2));
        again.crash(&crash.fates);
        assert_eq!(again.snapshot(), crash.image);
        assert_eq!(again.durable(), crash.image);
    }
}

#[test]
fn zeroes_and_discards_are_volatile_too_and_cost_what_is_held() {
    let device = device(512);
    put(&device, 0, 1);
    put(&device, 1, 1);
    device.flush().unwrap();
    let everything = LenBytes::new(u64::MAX - 511);
    device.write_zeroes(DiskByte::ZERO, everything).unwrap();
    assert_eq!(sectors(&device.snapshot(), 2), [0, 0]);
    assert_eq!(device.unflushed().len(), 8, "one chunk of the image");
    device.crash(&[Fate::Kept]);
    assert_eq!(sectors(&device.snapshot(), 2), [0, 1]);
    device
        .discard(DiskByte::new(512), LenBytes::new(512))
        .unwrap();
    assert_eq!(sectors(&device.snapshot(), 2), [0, DISCARDED]);
    device.crash(&[Fate::Lost]);
    assert_eq!(sectors(&device.snapshot(), 2), [0, 1]);
}

#[test]
fn with_byte_blocks_a_write_is_cut_at_sectors() {
    let device = device(1);
    write_all(&device, DiskByte::new(500), &[&[1; 600]]).unwrap();
    let places: Vec<_> = device.unflushed();
    let places = places.iter().map(|(at, len)| (at.get(), len.get()));
    assert!(places.eq([(500, 12), (512, 512), (1024, 76)]));
}
