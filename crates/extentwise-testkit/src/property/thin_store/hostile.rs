//! Images of a store with bytes changed, and checksums made right again.

use extentwise_checksum::{Checksum, Crc32c};
use extentwise_core::geometry::{BlockSize, DiskByte, FileOffset, FileRange, LenBytes};
use extentwise_device::write_all;
use extentwise_engine::{FileId, Mapping};
use extentwise_thin::{ThinStore, Unbalanced};

use super::session::geometry;
use crate::device::{Image, MemoryDevice};
use crate::property::choice::Choices;

const BLOCK: usize = 512;
/// Superblock fields, as the crate's documentation has them.
const ROOT: usize = 72;
const ROOT_CSUM: usize = 80;
/// Fields of a block of the map.
const NEXT: usize = 64;
const NEXT_CSUM: usize = 72;
const SLOTS: [u64; 2] = [0, 65_536];
const CHANGES_MAX: usize = 16;

/// A byte that becomes another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// 0 is the superblock, then the blocks of the map follow.
    block: usize,
    offset: usize,
    value: u8,
    /// Whether the checksums are made right afterwards.
    sealed: bool,
}

pub(super) fn decode(choices: &mut Choices<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    while !choices.is_empty() && changes.len() < CHANGES_MAX {
        let (block, offset) = (choices.index(4), choices.index(BLOCK));
        // Most of what is looked at lies near the beginning.
        let offset = if choices.chance(64) {
            offset
        } else {
            32 + offset % 128
        };
        changes.push(Change {
            block,
            offset,
            value: choices.byte(),
            sealed: !choices.chance(16),
        });
    }
    changes
}

/// Opens an image with these changes; what opens is walked, changed, made
/// durable and opened again.
pub(super) fn run(changes: &[Change]) {
    let device = MemoryDevice::from_image(geometry(), changed(changes));
    let mut store = match ThinStore::open(&device) {
        Ok(store) => store,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    match store.check() {
        // Somebody else's store may be too full to work with.
        Ok(()) | Err(Unbalanced::Overcommitted { .. }) => {}
        Err(error) => panic!("opened, but {error}"),
    }
    let files: Vec<FileId> = store.files().collect();
    for file in &files {
        let mut at = 0;
        // As many answers as there can be extents and holes.
        for _ in 0..512 {
            let Some(asked) = block_at(at) else { break };
            let extent = store.map(*file, asked).expect("the file exists");
            assert!(extent.range.covers(asked));
            at = extent.range.end().get();
        }
        let _ = store.punch(
            *file,
            FileRange::new(FileOffset::ZERO, block_at(3).unwrap().end()).unwrap(),
        );
        let _ = store.set_size(*file, FileOffset::new(7));
    }
    if store.persist(&device).is_ok() {
        let again = ThinStore::open(&device).expect("what was made durable opens");
        assert!(again.files().eq(files));
    }
}

/// The block of a file that begins at byte `at`.
fn block_at(at: u64) -> Option<FileRange> {
    FileRange::at(FileOffset::new(at), LenBytes::new(BLOCK as u64))
}

/// A store of three files, whose map has three blocks, with these changes.
fn changed(changes: &[Change]) -> Image {
    let device = MemoryDevice::new(geometry());
    let mut store = ThinStore::format(&device, BlockSize::MIN).expect("it is large enough");
    for file in (1..=3).map(FileId) {
        store.create(file).expect("there is room");
        for nth in 0..12 {
            let range = block_at(nth * 1024).expect("small numbers");
            store.preallocate(file, range).expect("there is room");
        }
    }
    store.persist(&device).expect("nothing fails");
    let mut image = device.snapshot();
    let mut blocks = vec![SLOTS[0]];
    let root = word(&image, SLOTS[0], ROOT);
    let mut next = root;
    while next != 0 {
        blocks.push(next * BLOCK as u64);
        next = word(&image, next * BLOCK as u64, NEXT);
    }
    let unsealed = changes.iter().filter(|change| !change.sealed);
    let sealed = changes.iter().filter(|change| change.sealed);
    apply(&mut image, &blocks, sealed);
    seal(&mut image, &blocks);
    apply(&mut image, &blocks, unsealed);
    let copy = MemoryDevice::from_image(geometry(), image);
    // The older superblock would serve instead.
    write_all(&copy, DiskByte::new(SLOTS[1]), &[&[0; BLOCK]]).expect("nothing fails");
    copy.snapshot()
}

fn apply<'c>(image: &mut Image, blocks: &[u64], changes: impl Iterator<Item = &'c Change>) {
    for change in changes {
        let block = blocks[change.block % blocks.len()];
        let at = DiskByte::new(block + change.offset as u64);
        image.write(at, &[change.value]);
    }
}

/// Makes the checksums right, from the last block of the map to the superblock.
fn seal(image: &mut Image, blocks: &[u64]) {
    let mut csum = None;
    for (nth, block) in blocks.iter().enumerate().rev() {
        let mut bytes = image.bytes(DiskByte::new(*block), BLOCK);
        if let Some(csum) = csum {
            let field = if nth == 0 { ROOT_CSUM } else { NEXT_CSUM };
            bytes[field..field + 8].copy_from_slice(&u64::to_le_bytes(csum));
        }
        let digest = Crc32c::new().of(&bytes[32..]);
        bytes[..32].copy_from_slice(&digest);
        csum = Some(u64::from(u32::from_le_bytes([
            digest[0], digest[1], digest[2], digest[3],
        ])));
        image.write(DiskByte::new(*block), &bytes);
    }
}

fn word(image: &Image, block: u64, field: usize) -> u64 {
    let bytes = image.bytes(DiskByte::new(block + field as u64), 8);
    u64::from_le_bytes(bytes.try_into().unwrap_or_default())
}
