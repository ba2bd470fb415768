//! Superblocks that are broken, or that ask for what is not supported (B9).

use extentwise_btrfs::synthetic::{Copies, Synthetic};
use extentwise_btrfs::{Heap, Image, Report};

fn check(image: &Synthetic) -> Report {
    let mut pool = Heap::default();
    let image = Image::open(image.bytes.as_slice(), &mut pool).unwrap();
    image.check(&mut pool, &mut |_| {})
}

fn refusal(image: &Synthetic) -> String {
    let opened = Image::open(image.bytes.as_slice(), &mut Heap::default());
    opened.unwrap_err().to_string()
}

fn put(block: &mut [u8], offset: usize, bytes: &[u8]) {
    block[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// What to write where in the superblock, and what the image is refused with.
type Refused = (usize, &'static [u8], &'static str);
const REFUSED: &[Refused] = &[
    (
        0x40,
        b"XXXXXXXX",
        "no superblock; at 65536: the magic is missing",
    ),
    (
        0x30,
        &[1],
        "no superblock; at 65536: bytenr 65537: must be 65536",
    ),
    (0x88, &[2], "2 devices: only one is supported"),
    (
        0x88,
        &[0],
        "no superblock; at 65536: num_devices 0: must be at least 1",
    ),
    (0xbc, &[0x80], "incompat_flags 0x80: not supported (raid56)"),
    (
        0xbd,
        &[0x10],
        "incompat_flags 0x1000: not supported (zoned)",
    ),
    (
        0xbd,
        &[0x60],
        "incompat_flags 0x6000: not supported (extent-tree-v2, raid-stripe-tree)",
    ),
    (
        0xc3,
        &[0x80],
        "incompat_flags 0x8000000000000000: not supported",
    ),
    (0xc4, &[4], "csum_type 4: not known"),
    (
        0x90,
        &[0xff],
        "no superblock; at 65536: sectorsize 4351: must be a power of two from 4096 to 65536",
    ),
    (
        0x94,
        &[0, 0, 2],
        "no superblock; at 65536: nodesize 131072: must be a power of two from 4096 to 65536",
    ),
    (
        0xa0,
        &[0xff; 4],
        "no superblock; at 65536: sys_chunk_array_size 4294967295: must be at most 2048",
    ),
    (
        0xc6,
        &[8],
        "no superblock; at 65536: root_level 8: must be at most 7",
    ),
    (
        0x50,
        &[1],
        "no superblock; at 65536: root 2097153: must be a multiple of 4096",
    ),
    (
        0xa0,
        &[96],
        "superblock, sys_chunk_array at byte 0: bytes left for stripes 96: must be at least 97",
    ),
    (
        0xa0,
        &[98],
        "superblock, sys_chunk_array at byte 97: bytes left for a key 1: must be at least 17",
    ),
    (
        0x32b + 8,
        &[1],
        "superblock, sys_chunk_array at byte 0: key type 1: must be 228",
    ),
    (
        0x32b + 17 + 24,
        &[0x0a],
        "chunk 1048576 has type 0xa: only single, DUP and RAID1 are supported",
    ),
    (
        0x32b + 17 + 24,
        &[0x40],
        "chunk 1048576 has type 0x40: only single, DUP and RAID1 are supported",
    ),
    (
        0x32b + 17 + 48,
        &[2],
        "chunk 1048576 lies on device 2: only one is supported",
    ),
    (
        0x3c,
        &[2],
        "flags 0x200000000: a dump or a file system amid a conversion is not supported",
    ),
];

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for &(offset, bytes, expected) in REFUSED {
        let mut image = Synthetic::new(Copies::Single);
        put(image.superblock_mut(), offset, bytes);
        image.seal();
        assert_eq!(refusal(&image), expected);
    }
}

#[test]
fn the_metadata_uuid_is_used_where_its_flag_is_set() {
    let mut image = Synthetic::new(Copies::Single);
    let superblock = image.superblock_mut();
    let uuid: Vec<u8> = superblock[0x20..0x30].to_vec();
    put(superblock, 0x23b, &uuid);
    put(superblock, 0x20, &[0xee; 16]);
    image.seal();
    assert!(refusal(&image).contains("dev_item.fsid"));
    put(image.superblock_mut(), 0xbd, &[4]);
    image.seal();
    assert!(check(&image).is_sound());
}

#[test]
fn a_superblock_that_is_bad_is_replaced_by_its_mirror() {
    const MIRROR: usize = 64 << 20;
    let mut image = Synthetic::new(Copies::Single);
    let device_len = (MIRROR as u64 + 4096).to_le_bytes();
    put(image.superblock_mut(), 0x70 + 0x61, &device_len);
    image.seal();
    let mut mirror = image.superblock_mut().to_vec();
    put(&mut mirror, 0x30, &(MIRROR as u64).to_le_bytes());
    extentwise_btrfs::synthetic::seal(extentwise_btrfs::Algorithm::Crc32c, &mut mirror);
    image.bytes.resize(MIRROR, 0);
    image.bytes.extend_from_slice(&mirror);
    assert!(check(&image).is_sound());

    image.superblock_mut()[200] ^= 1;
    let report = check(&image);
    assert_eq!(report.bad.len(), 1);
    let told = report.bad[0].to_string();
    assert!(told.starts_with("block 65536, mirror 1: csum "), "{told}");
    assert!(told.ends_with("; mirror 2 is sound and was used"), "{told}");
    assert_eq!(report.distinct, 7);

    image.bytes[MIRROR] ^= 1;
    assert!(refusal(&image).contains("at 67108864: csum "));
}
