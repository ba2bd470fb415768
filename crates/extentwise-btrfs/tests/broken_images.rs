//! Images that are broken in every way there is a check for (B9). They are made
//! in memory, so these tests need no program.

use std::time::{Duration, Instant};

use extentwise_btrfs::synthetic::{Copies, NODESIZE, Synthetic, at};
use extentwise_btrfs::{BlockPool, Heap, Image, Limits, ReadAt, Report, Stopped, Tree};

/// Bytes of the fields of a header, an item, a pointer and a superblock.
const BYTENR: usize = 48;
const GENERATION: usize = 80;
const OWNER: usize = 88;
const NRITEMS: usize = 96;
const LEVEL: usize = 100;
const ITEMS: usize = 101;
const ITEM_DATA: usize = 17;
const ITEM_SIZE: usize = 21;
const SECOND_ITEM: usize = ITEMS + 25;
const BLOCKPTR: usize = 17;
const POINTER_GENERATION: usize = 25;

fn check(image: &Synthetic) -> Report {
    let mut pool = Heap::default();
    let image = Image::open(image.bytes.as_slice(), &mut pool).unwrap();
    image.check(&mut pool, &mut |_| {})
}

fn put(block: &mut [u8], offset: usize, bytes: &[u8]) {
    block[offset..offset + bytes.len()].copy_from_slice(bytes);
}

fn first_data(block: &[u8]) -> usize {
    let raw = &block[ITEMS + ITEM_DATA..ITEMS + ITEM_DATA + 4];
    ITEMS + u32::from_le_bytes(raw.try_into().unwrap()) as usize
}

#[test]
fn a_sound_image_is_counted_with_shared_leaves_in_each_tree() {
    for copies in [Copies::Single, Copies::Dup] {
        let report = check(&Synthetic::new(copies));
        assert!(report.is_sound(), "{:?}", report.bad);
        let tree = |objectid, nodes, leaves, levels| Tree {
            objectid,
            offset: 0,
            nodes,
            leaves,
            levels,
        };
        let expected = [
            tree(1, 0, 1, 1),
            tree(3, 0, 1, 1),
            tree(5, 1, 2, 2),
            tree(7, 0, 1, 1),
            tree(256, 1, 2, 2),
        ];
        assert_eq!(report.trees, expected);
        assert_eq!(
            (report.nodes(), report.leaves(), report.distinct),
            (2, 7, 7)
        );
    }
}

/// What to break in which block, and what must be said of it.
type Case = (u64, fn(&mut [u8]), &'static str);

const CASES: &[Case] = &[
    (
        at::EMPTY,
        |b| put(b, BYTENR, &[1]),
        "bytenr 2117633: must be 2117632",
    ),
    (
        at::EMPTY,
        |b| put(b, 32, &[0]),
        "fsid 00787465-6e74-7769-7365-207465737473: must be 65787465-6e74-7769-7365-207465737473",
    ),
    (
        at::EMPTY,
        |b| put(b, LEVEL, &[200]),
        "level 200: must be at most 7",
    ),
    (
        at::EMPTY,
        |b| put(b, LEVEL, &[1]),
        "nritems 0: must be at least 1",
    ),
    (
        at::EMPTY,
        |b| put(b, GENERATION, &[8]),
        "generation 8: must be 9",
    ),
    (at::EMPTY, |b| put(b, OWNER, &[2]), "owner 2: must be 7"),
    (
        at::EMPTY,
        |b| put(b, NRITEMS, &[0xff; 4]),
        "nritems 4294967295: must be at most 159",
    ),
    (
        at::SUBVOLUME,
        |b| put(b, OWNER, &[7]),
        "owner 7: must be the id of a subvolume",
    ),
    (at::SUBVOLUME, |b| put(b, LEVEL, &[2]), "level 2: must be 1"),
    (
        at::SUBVOLUME,
        |b| put(b, NRITEMS, &[122]),
        "nritems 122: must be at most 121",
    ),
    (
        at::SUBVOLUME,
        |b| put(b, NRITEMS, &[3]),
        "item 2: key (0 0 0) must come after (300 1 0)",
    ),
    (
        at::SUBVOLUME,
        |b| put(b, ITEMS + BLOCKPTR, &[1]),
        "item 0: blockptr 2109441: must be a multiple of 4096",
    ),
    (
        at::LEAVES[0],
        |b| put(b, ITEMS, &[0]),
        "first key (256 1 0): the parent has (257 1 0)",
    ),
    (
        at::LEAVES[0],
        |b| put(b, SECOND_ITEM, &[1]),
        "item 1: key (257 1 0) must come after (257 1 0)",
    ),
    (
        at::LEAVES[0],
        |b| put(b, SECOND_ITEM + 4 * 25 - 25, &[44]),
        "last key (300 1 0): the parent's next child begins at (300 1 0)",
    ),
    (
        at::LEAVES[0],
        |b| put(b, NRITEMS, &[0]),
        "nritems 0: must be at least 1",
    ),
    (
        at::LEAVES[0],
        |b| put(b, ITEMS + ITEM_SIZE, &[101]),
        "item 0: end of data 4097: must be 4096",
    ),
    (
        at::LEAVES[0],
        |b| put(b, ITEMS + ITEM_SIZE, &[0xff; 4]),
        "item 0: end of data 4294971291: must be 4096",
    ),
    (
        at::LEAVES[0],
        |b| put(b, ITEMS + ITEM_DATA, &[0xff; 8]),
        "item 0: end of data 8589934691: must be 4096",
    ),
    (
        at::LEAVES[0],
        |b| {
            put(b, ITEMS + ITEM_DATA, &100_u32.to_le_bytes());
            put(b, ITEMS + ITEM_SIZE, &(3995 - 100_u32).to_le_bytes());
        },
        "item 0: start of data 201: must be at least 226",
    ),
    (
        at::LEAVES[0],
        |b| put(b, SECOND_ITEM + ITEM_SIZE, &[99]),
        "item 1: end of data 3995: must be 3996",
    ),
    (
        at::ROOT_TREE,
        |b| put(b, first_data(b) + 176, &[1]),
        "item 0: bytenr 2101249: must be a multiple of 4096",
    ),
    (
        at::ROOT_TREE,
        |b| put(b, first_data(b) + 238, &[8]),
        "item 0: level 8: must be at most 7",
    ),
    (
        at::CHUNK_TREE,
        |b| put(b, first_data(b), &[0; 8]),
        "item 0: chunk length 0: must be at least 4096",
    ),
    (
        at::CHUNK_TREE,
        |b| put(b, first_data(b), &0_u64.wrapping_sub(4096).to_le_bytes()),
        "item 0: chunk length 18446744073709547520: ends behind the last address",
    ),
    (
        at::CHUNK_TREE,
        |b| put(b, first_data(b), &0x10_0000_0000_u64.to_le_bytes()),
        "item 0: chunk 1048576: differs from what was said of it before",
    ),
    (
        at::CHUNK_TREE,
        |b| put(b, SECOND_ITEM + 10, &[0x10, 0x10]),
        "item 1: chunk 1052672: overlaps the chunk at 1048576",
    ),
    (
        at::CHUNK_TREE,
        |b| put(b, first_data(b) + 56, &[0xff; 8]),
        "item 0: stripe offset 18446744073709551615: ends behind the last address",
    ),
    (
        at::CHUNK_TREE,
        |b| put(b, first_data(b) + 44, &[0xff; 2]),
        "item 0: size of the chunk item 80: must be 2097168",
    ),
];

#[test]
fn what_is_broken_is_told_with_its_block_and_field() {
    for &(bytenr, break_it, expected) in CASES {
        let mut image = Synthetic::new(Copies::Single);
        break_it(image.block_mut(bytenr, 1));
        image.seal();
        let report = check(&image);
        let told = report
            .bad
            .iter()
            .any(|bad| bad.bytenr == bytenr && bad.reason.to_string() == expected);
        assert!(told, "{expected:?} of {bytenr}: {:?}", report.bad);
    }
}

#[test]
fn a_bad_copy_is_replaced_by_the_other_and_told() {
    let sound = check(&Synthetic::new(Copies::Dup));
    for bytenr in at::ALL {
        for (mirror, used) in [(1, 2), (2, 1)] {
            let mut image = Synthetic::new(Copies::Dup);
            image.block_mut(bytenr, mirror)[NODESIZE - 1] ^= 1;
            let report = check(&image);
            let [bad] = report.bad.as_slice() else {
                panic!("{:?}", report.bad);
            };
            assert_eq!((bad.bytenr, bad.mirror as usize), (bytenr, mirror));
            assert_eq!(bad.used, Some(used));
            assert!(bad.reason.to_string().starts_with("csum "), "{bad}");
            assert_eq!(report.trees, sound.trees);
            assert!(!report.is_sound());
        }
    }
}

#[test]
fn an_old_copy_that_is_sound_by_itself_is_told_by_its_generation() {
    let mut image = Synthetic::new(Copies::Dup);
    put(image.block_mut(at::SUBVOLUME, 1), GENERATION, &[8]);
    image.seal();
    let bad = check(&image).bad.remove(0).to_string();
    let expected =
        "block 2101248, mirror 1: generation 8: must be 9; mirror 2 is sound and was used";
    assert_eq!(bad, expected);
}

#[test]
fn sound_copies_that_differ_are_told() {
    let mut image = Synthetic::new(Copies::Dup);
    image.block_mut(at::LEAVES[0], 2)[NODESIZE - 1] ^= 1;
    image.seal();
    let bad = check(&image).bad.remove(0);
    assert_eq!(
        bad.reason.to_string(),
        "differs from the copy that was used"
    );
    assert_eq!((bad.mirror, bad.used), (2, Some(1)));
}

#[test]
fn a_wrong_reference_of_a_snapshot_does_not_hide_the_block_from_others() {
    for broken in [at::SUBVOLUME, at::SNAPSHOT] {
        let mut image = Synthetic::new(Copies::Single);
        put(image.block_mut(broken, 1), ITEMS + POINTER_GENERATION, &[8]);
        image.seal();
        let report = check(&image);
        assert_eq!(report.bad.len(), 1);
        assert_eq!(
            report.bad[0].to_string(),
            "block 2109440, mirror 1: generation 9: must be 8"
        );
        assert_eq!(report.leaves(), 6);
    }
}

#[test]
fn pointers_in_a_circle_end_at_the_level() {
    let mut image = Synthetic::new(Copies::Single);
    let itself = at::SUBVOLUME.to_le_bytes();
    put(image.block_mut(at::SUBVOLUME, 1), ITEMS + BLOCKPTR, &itself);
    image.seal();
    let report = check(&image);
    assert_eq!(report.bad[0].reason.to_string(), "level 1: must be 0");
    assert_eq!(report.stopped, None);
}

#[test]
fn children_before_the_place_of_a_deletion_are_not_followed() {
    let mut image = Synthetic::new(Copies::Single);
    let key = 300_u64.to_le_bytes();
    let roots = image.block_mut(at::ROOT_TREE, 1);
    let root = first_data(roots);
    put(roots, root + 220, &key);
    put(roots, root + 228, &[1]);
    put(image.block_mut(at::SUBVOLUME, 1), ITEMS + BLOCKPTR, &[0, 0]);
    put(
        image.block_mut(at::SUBVOLUME, 1),
        ITEMS + POINTER_GENERATION,
        &[1],
    );
    image.seal();
    let report = check(&image);
    assert!(report.is_sound(), "{:?}", report.bad);
    assert_eq!((report.trees[2].nodes, report.trees[2].leaves), (1, 1));
    assert_eq!((report.trees[4].nodes, report.trees[4].leaves), (1, 2));
}

#[test]
fn a_walk_ends_where_its_limits_are() {
    let image = Synthetic::new(Copies::Single);
    let limited = |image: &Synthetic, steps, bad_max| {
        let limits = Limits { steps, bad_max };
        let mut pool = Heap::default();
        let image = Image::open_limited(image.bytes.as_slice(), &mut pool, limits).unwrap();
        image.check(&mut pool, &mut |_| {})
    };
    for steps in 0..9 {
        let report = limited(&image, steps, 9);
        assert_eq!(report.stopped, Some(Stopped::Steps(steps)));
        assert!(!report.is_sound());
    }
    assert!(limited(&image, 9, 0).is_sound());
    let mut broken = image.clone();
    broken.block_mut(at::EMPTY, 1)[0] ^= 1;
    broken.block_mut(at::SNAPSHOT, 1)[0] ^= 1;
    let report = limited(&broken, 99, 1);
    assert_eq!(
        (report.bad.len(), report.stopped),
        (1, Some(Stopped::Bad(1)))
    );
}

#[test]
fn a_flipped_bit_anywhere_in_a_block_is_found() {
    let mut image = Synthetic::new(Copies::Single);
    for bytenr in at::ALL {
        for offset in 0..NODESIZE {
            let bit = 1 << (offset % 8);
            image.block_mut(bytenr, 1)[offset] ^= bit;
            let report = check(&image);
            let found = report.bad.iter().any(|bad| bad.bytenr == bytenr);
            assert!(found, "byte {offset} of {bytenr}: {:?}", report.bad);
            image.block_mut(bytenr, 1)[offset] ^= bit;
        }
    }
}

#[test]
fn no_mutation_with_right_checksums_panics_or_takes_long() {
    let started = Instant::now();
    let mut random = Random(1);
    for _ in 0..20_000 {
        let copies = [Copies::Single, Copies::Dup][random.below(2)];
        let mut image = Synthetic::new(copies);
        for _ in 0..=random.below(6) {
            let block = match random.below(at::ALL.len() + 1) {
                0 => image.superblock_mut(),
                n => image.block_mut(at::ALL[n - 1], 1),
            };
            // Most of what is looked at lies near the beginning.
            let most = [64, 256, 1024, NODESIZE][random.below(4)];
            block[random.below(most)] = random.byte();
        }
        image.seal();
        look_at_everything(image.bytes.as_slice());
    }
    assert!(started.elapsed() < Duration::from_secs(120));
}

#[test]
fn an_image_cut_anywhere_is_told_as_cut() {
    let image = Synthetic::new(Copies::Dup);
    for len in (0..image.bytes.len()).step_by(1024) {
        look_at_everything(&image.bytes[..len]);
    }
    let cut = &image.bytes[..image.bytes.len() - 0x7000];
    let mut pool = Heap::default();
    let report = Image::open(cut, &mut pool)
        .unwrap()
        .check(&mut pool, &mut |_| {});
    assert!(!report.is_sound());
    assert_eq!(report.distinct, 7);
    let told = report.bad[0].reason.to_string();
    assert_eq!(told, "it lies behind the end of the image");
}

#[test]
fn a_block_is_shown_with_what_is_wrong_with_its_copies() {
    let mut image = Synthetic::new(Copies::Dup);
    image.block_mut(at::SUBVOLUME, 1)[NODESIZE - 1] ^= 1;
    let mut pool = Heap::default();
    let opened = Image::open(image.bytes.as_slice(), &mut pool).unwrap();
    let view = opened.block(at::SUBVOLUME, &mut pool).unwrap();
    assert_eq!(
        (view.mirror, view.header.level, view.header.nritems),
        (2, 1, 2)
    );
    assert!(view.copies[0].1.is_some() && view.copies[1].1.is_none());
    assert_eq!(view.bytes.len(), NODESIZE);
    let error = opened.block(4096, &mut pool).unwrap_err();
    assert_eq!(
        error.to_string(),
        "block 4096: no chunk of metadata maps it"
    );
    assert_eq!(pool.counts().contiguous, 2);
}

/// Opens, checks and shows; whatever comes of it can be told in words.
fn look_at_everything<R: ReadAt + ?Sized>(image: &R) {
    let mut pool = Heap::default();
    let opened = match Image::open(image, &mut pool) {
        Ok(opened) => opened,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let report = opened.check(&mut pool, &mut |_| {});
    for bad in &report.bad {
        assert!(!bad.to_string().is_empty());
    }
    for bytenr in at::ALL {
        let _ = opened.block(bytenr, &mut pool);
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        [0, 1, 0x7f, 0xff, self.next().to_le_bytes()[0]][self.below(5)]
    }
}
