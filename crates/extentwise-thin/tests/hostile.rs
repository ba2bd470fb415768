//! Bytes that nobody may believe: bits that flipped, devices that were cut, and
//! maps written by somebody else, with right checksums.

mod support;

use extentwise_checksum::{Checksum, Crc32c};
use extentwise_core::geometry::{BlockSize, DiskByte, LenBytes};
use extentwise_device::{Device, DeviceGeometry};
use extentwise_engine::FileId;
use extentwise_testkit::device::{Image, MemoryDevice};
use extentwise_thin::{Broken, ThinError, ThinStore, Unbalanced};
use support::{BLOCK, BLOCK_LEN, BLOCKS, State, geometry, range, state, write};

const SLOTS: [u64; 2] = [0, 65_536];

/// A store whose map has several blocks, and the state before its last persist.
fn image() -> (Image, State, State) {
    let device = MemoryDevice::new(geometry());
    let mut store = ThinStore::format(&device, BlockSize::MIN).unwrap();
    for file in (1..=3).map(FileId) {
        store.create(file).unwrap();
        for at in (0..14).step_by(2) {
            store.preallocate(file, range(at, at + 1)).unwrap();
            write(&mut store, &device, file, (at, at + 1), at);
        }
        store.preallocate(file, range(15, 16)).unwrap();
    }
    store.persist(&device).unwrap();
    let old = state(&store, &device);
    store.remove(FileId(2)).unwrap();
    store.create(FileId(4)).unwrap();
    store.persist(&device).unwrap();
    let new = state(&store, &device);
    (device.snapshot(), old, new)
}

/// Where the blocks lie that say what the store is: superblocks and maps.
fn described(image: &Image) -> Vec<u64> {
    let blocks = (0..BLOCKS).map(|block| block * BLOCK);
    let described = blocks.filter(|at| image.bytes(DiskByte::new(at + 32), 3) == b"XTW");
    described.collect()
}

fn open(image: Image) -> (Result<ThinStore, ThinError>, MemoryDevice) {
    let device = MemoryDevice::from_image(geometry(), image);
    (ThinStore::open(&device), device)
}

#[test]
fn every_flipped_bit_of_superblocks_and_maps_is_an_error_or_a_state_there_was() {
    let (image, old, new) = image();
    let blocks = described(&image);
    assert!(blocks.len() >= 6, "{blocks:?}");
    let (mut errors, mut states) = (0, 0);
    for block in blocks {
        for bit in 0..BLOCK * 8 {
            let at = DiskByte::new(block + bit / 8);
            let byte = image.bytes(at, 1)[0];
            let mut flipped = image.clone();
            flipped.write(at, &[byte ^ 1 << (bit % 8)]);
            match open(flipped) {
                (Ok(store), device) => {
                    store.check().unwrap();
                    let shown = state(&store, &device);
                    // The older superblock serves where the newer looks torn.
                    let torn = block == SLOTS[1];
                    assert!(shown == new || torn && shown == old, "bit {bit} of {block}");
                    states += 1;
                }
                (Err(error), _) => {
                    assert!(!error.to_string().is_empty());
                    errors += 1;
                }
            }
        }
    }
    assert!(errors > 4096 && states > 4096, "{errors} {states}");
}

#[test]
fn a_device_that_was_cut_is_refused_by_name() {
    let (image, ..) = image();
    for blocks in 0..BLOCKS {
        let short = DeviceGeometry::new(512, 512).unwrap();
        let short = short.with_capacity(LenBytes::new(blocks * BLOCK));
        let device = MemoryDevice::from_image(short, image.clone());
        match ThinStore::open(&device).unwrap_err() {
            ThinError::Shortened { .. } | ThinError::NoSuperblock => {}
            error => panic!("{blocks} blocks: {error}"),
        }
    }
    // A device that does not know its end, and lost it.
    let endless = DeviceGeometry::new(512, 512).unwrap();
    for blocks in 0..136 {
        let mut cut = Image::new();
        let bytes = image.bytes(DiskByte::ZERO, blocks * BLOCK_LEN);
        cut.write(DiskByte::ZERO, &bytes);
        let device = MemoryDevice::from_image(endless, cut);
        if let Ok(store) = ThinStore::open(&device) {
            store.check().unwrap();
        }
    }
}

/// Somebody else's store, with checksums that are right.
struct Forged {
    block_size: u64,
    blocks: u64,
    map_blocks: u64,
    root: u64,
    next: u64,
    owner: u64,
    count: u64,
    records: Vec<[u64; 3]>,
}

fn forged(records: &[[u64; 3]]) -> Forged {
    Forged {
        block_size: BLOCK,
        blocks: BLOCKS,
        map_blocks: 1,
        root: 2,
        next: 0,
        owner: records.first().map_or(0, |record| record[1]),
        count: records.len() as u64,
        records: records.to_vec(),
    }
}

impl Forged {
    fn open(&self) -> Result<ThinStore, ThinError> {
        let mut image = Image::new();
        let map_at = self.root.wrapping_mul(BLOCK);
        let mut map = block(*b"XTWtmap\x01", map_at);
        put(&mut map, 56, &[self.owner, self.next, 0, self.count]);
        for (nth, record) in self.records.iter().enumerate() {
            put(&mut map, 88 + nth * 24, record);
        }
        let csum = seal(&mut map);
        image.write(DiskByte::new(map_at), &map);
        let mut superblock = block(*b"XTWthin\x01", 0);
        let words = [
            self.block_size,
            self.blocks,
            self.root,
            csum,
            self.map_blocks,
        ];
        put(&mut superblock, 56, &words);
        seal(&mut superblock);
        image.write(DiskByte::ZERO, &superblock);
        let (opened, _) = open(image);
        if let Ok(store) = &opened {
            assert!(matches!(
                store.check(),
                Ok(()) | Err(Unbalanced::Overcommitted { .. })
            ));
        }
        opened
    }

    /// The field that the store is refused for.
    fn refused(&self) -> &'static str {
        match self.open().unwrap_err() {
            ThinError::Map { broken, .. } | ThinError::Superblock { broken, .. } => match broken {
                Broken::Field { name, .. } => name,
                Broken::Overlap { .. } => "overlap",
                broken => panic!("{broken}"),
            },
            ThinError::Shortened { .. } => "capacity",
            ThinError::TooSmall { .. } => "too small",
            error => panic!("{error}"),
        }
    }
}

fn block(magic: [u8; 8], address: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_LEN];
    put(&mut bytes, 32, &[u64::from_le_bytes(magic), address, 9]);
    bytes
}

fn put(bytes: &mut [u8], at: usize, words: &[u64]) {
    for (nth, word) in words.iter().enumerate() {
        bytes[at + nth * 8..at + nth * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
}

fn seal(bytes: &mut [u8]) -> u64 {
    let digest = Crc32c::new().of(&bytes[32..]);
    bytes[..32].copy_from_slice(&digest);
    u64::from(u32::from_le_bytes(digest[..4].try_into().unwrap()))
}

const fn file(id: u64, extents: u64) -> [u64; 3] {
    [1 | extents << 8, id, 0]
}

const fn written(len: u64, at: u64, disk: u64) -> [u64; 3] {
    [2 | len << 8, at, disk]
}

const fn unwritten(len: u64, at: u64, disk: u64) -> [u64; 3] {
    [3 | len << 8, at, disk]
}

#[test]
fn a_forged_store_without_a_flaw_opens() {
    let last = (u64::MAX >> 9) - 1;
    let store = forged(&[
        file(5, 2),
        written(4, 0, 10),
        unwritten(1, last, 20),
        file(u64::MAX, 0),
    ]);
    let store = store.open().unwrap();
    assert!(store.files().eq([FileId(5), FileId(u64::MAX)]));
    assert_eq!(store.usage().data, 5);
}

#[test]
fn forged_extents_are_refused_for_what_they_are() {
    let cases: &[(&[[u64; 3]], &str)] = &[
        // On another file, on the map, on a superblock, on themselves.
        (
            &[file(1, 1), written(4, 0, 10), file(2, 1), written(1, 0, 13)],
            "overlap",
        ),
        (&[file(1, 1), written(4, 0, 1)], "overlap"),
        (&[file(1, 1), written(1, 0, 0)], "overlap"),
        (&[file(1, 1), unwritten(2, 0, 127)], "overlap"),
        (
            &[file(1, 2), written(2, 0, 10), unwritten(2, 2, 11)],
            "overlap",
        ),
        // Off the device.
        (&[file(1, 1), written(2, 0, BLOCKS - 1)], "extent's place"),
        (&[file(1, 1), written(1, 0, u64::MAX)], "extent's place"),
        (
            &[file(1, 1), written((1 << 56) - 1, 0, 10)],
            "extent at block",
        ),
        (&[file(1, 1), written(0, 0, 10)], "extent's place"),
        // Wrong in the file.
        (
            &[file(1, 2), written(2, 0, 10), written(1, 1, 20)],
            "extent at block",
        ),
        (
            &[file(1, 2), written(2, 5, 10), written(1, 0, 20)],
            "extent at block",
        ),
        (&[file(1, 1), written(1, u64::MAX, 10)], "extent at block"),
        (
            &[file(1, 1), written(2, u64::MAX >> 9, 10)],
            "extent at block",
        ),
        (&[file(1, 0), written(1, 0, 10)], "extent at block"),
        (&[written(1, 0, 10)], "extent at block"),
        (&[file(1, 2), written(1, 0, 10)], "extents missing"),
        (&[file(1, 1), file(2, 0)], "extents missing"),
        // Files twice, or out of order.
        (&[file(1, 0), file(1, 0)], "file"),
        (&[file(2, 0), file(1, 0)], "file"),
        // No record at all, or none that is known.
        (&[[0, 0, 0]], "tag of a record"),
        (&[[4, 0, 0]], "tag of a record"),
    ];
    for (records, name) in cases {
        assert_eq!(forged(records).refused(), *name, "{records:?}");
    }
}

#[test]
fn forged_blocks_are_refused_for_what_they_are() {
    let records = [file(1, 1), written(4, 0, 10)];
    let with = |change: &dyn Fn(&mut Forged)| {
        let mut store = forged(&records);
        change(&mut store);
        store.refused()
    };
    assert_eq!(with(&|store| store.owner = 2), "owner");
    assert_eq!(with(&|store| store.count = 0), "records");
    assert_eq!(with(&|store| store.count = 18), "records");
    assert_eq!(with(&|store| store.count = u64::MAX), "records");
    assert_eq!(with(&|store| store.count = 3), "tag of a record");
    assert_eq!(with(&|store| store.next = 3), "next block");
    assert_eq!(with(&|store| store.root = BLOCKS), "map block");
    assert_eq!(with(&|store| store.root = 0), "map blocks");
    assert_eq!(with(&|store| store.root = 128), "overlap");
    assert_eq!(with(&|store| store.map_blocks = 0), "map blocks");
    assert_eq!(with(&|store| store.map_blocks = u64::MAX), "map blocks");
    assert_eq!(with(&|store| store.blocks = 0), "device blocks");
    assert_eq!(with(&|store| store.blocks = u64::MAX), "device blocks");
    assert_eq!(with(&|store| store.blocks = BLOCKS + 1), "capacity");
    assert_eq!(with(&|store| store.block_size = 0), "block size");
    assert_eq!(with(&|store| store.block_size = 768), "block size");
    assert_eq!(with(&|store| store.block_size = 1 << 17), "block size");
    // The next block is the same one again: a ring.
    let ring = with(&|store| {
        store.map_blocks = 2;
        store.next = 2;
    });
    assert_eq!(ring, "overlap");
    // It ends before the superblock's count does.
    assert_eq!(with(&|store| store.map_blocks = 2), "overlap");
}

#[test]
fn a_full_store_of_somebody_else_opens_and_refuses_to_grow() {
    let store = forged(&[
        file(1, 3),
        written(1, 0, 1),
        written(125, 1, 3),
        written(BLOCKS - 129, 126, 129),
    ]);
    let mut store = store.open().unwrap();
    assert_eq!(store.usage().free, 0);
    assert!(matches!(
        store.create(FileId(2)),
        Err(ThinError::NoSpace { .. })
    ));
    let device = MemoryDevice::new(geometry());
    store.remove(FileId(1)).unwrap();
    store.persist(&device).unwrap();
    assert_eq!(
        store.usage().free,
        BLOCKS - 2,
        "an empty map needs no block"
    );
}

#[test]
fn data_that_looks_like_a_superblock_is_none() {
    let device = MemoryDevice::new(geometry());
    let mut store = ThinStore::format(&device, BlockSize::MIN).unwrap();
    store.persist(&device).unwrap();
    let forged = forged(&[file(1, 0)]);
    let mut bytes = block(*b"XTWthin\x01", 4096);
    put(
        &mut bytes,
        48,
        &[u64::MAX, forged.block_size, forged.blocks, 0, 0, 0],
    );
    seal(&mut bytes);
    device.write(DiskByte::new(4096), &[&bytes]).unwrap();
    assert!(ThinStore::open(&device).unwrap().files().next().is_none());
}
