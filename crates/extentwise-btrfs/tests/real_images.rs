//! Images made by `mkfs.btrfs`, also mounted and changed by the kernel.

mod btrfs_progs;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use btrfs_progs::{
    Workshop, available, check, check_in, counted, dumped, on_build_server, program, run, skipped,
};
use extentwise_btrfs::{
    Algorithm, Backing, Heap, Image, ImageFile, ReadAt, SUPERBLOCK_LEN, synthetic,
};

#[track_caller]
fn assert_agrees(image: &Path) {
    let dumped = dumped(image);
    for backing in Backing::ALL {
        let report = check_in(image, backing);
        assert!(report.is_sound(), "{:?}", report.bad);
        assert_eq!(counted(&report), dumped, "{}", backing.name());
    }
}

#[test]
fn counts_equal_dump_tree_for_every_checksum_and_node_size() {
    if !available() {
        return;
    }
    let workshop = Workshop::new().with_files(300);
    for (option, name) in [
        ("crc32c", "crc32c"),
        ("xxhash", "xxhash64"),
        ("sha256", "sha256"),
        ("blake2", "blake2b"),
    ] {
        for nodesize in ["4096", "16384", "65536"] {
            workshop.mkfs(&["--csum", option, "--nodesize", nodesize]);
            let file = ImageFile::open(&workshop.image()).unwrap();
            let image = Image::open(file, &mut Heap::default()).unwrap();
            assert_eq!(image.superblock().csum.name(), name);
            assert_eq!(image.superblock().nodesize.to_string(), nodesize);
            assert_agrees(&workshop.image());
        }
    }
}

#[test]
fn counts_equal_dump_tree_for_images_of_many_kinds() {
    if !available() {
        return;
    }
    let empty = Workshop::new();
    for options in [
        &[][..],
        &["--metadata", "single"],
        &["--mixed"],
        &["-O", "^no-holes,^skinny-metadata"],
        &["-R", "quota"],
        &["-R", "^free-space-tree"],
    ] {
        empty.mkfs(options);
        assert_agrees(&empty.image());
    }

    let names = Workshop::new();
    for index in 0..200 {
        let name = format!("{index:->255}");
        let path = names.root().join(name);
        fs::write(&path, "").unwrap();
        let value = vec![b'v'; 3000];
        let flags = rustix::fs::XattrFlags::empty();
        if let Err(error) = rustix::fs::setxattr(&path, "user.long", &value, flags) {
            skipped(&format!("no attributes in the temporary folder: {error}"));
            break;
        }
    }
    names.mkfs(&[]);
    assert_agrees(&names.image());
}

#[test]
fn counts_equal_dump_tree_for_many_files() {
    if !available() {
        return;
    }
    let count = if on_build_server() { 10_000 } else { 2_000 };
    let workshop = Workshop::new().with_files(count);
    workshop.mkfs(&["--nodesize", "4096"]);
    assert_agrees(&workshop.image());
    let levels = check(&workshop.image())
        .trees
        .iter()
        .map(|tree| tree.levels)
        .max();
    assert!(levels >= Some(3), "{levels:?}");
}

#[test]
fn snapshots_and_logs_are_counted_as_dump_tree_does() {
    if !available() {
        return;
    }
    let workshop = Workshop::new().with_files(500);
    workshop.mkfs(&["-R", "quota"]);
    let Some(mounted) = Mounted::new(&workshop) else {
        return skipped("loop mounts are not allowed here");
    };
    let top = mounted.0.clone();
    let btrfs = |words: &[&str]| {
        let mut command = program("btrfs");
        run(command.args(words).current_dir(&top));
    };
    btrfs(&["subvolume", "create", "sub"]);
    for index in 0..800 {
        fs::write(top.join(format!("sub/file {index}")), "small").unwrap();
    }
    btrfs(&["filesystem", "sync", "."]);
    for name in ["one", "two"] {
        btrfs(&["subvolume", "snapshot", "sub", name]);
        fs::write(top.join("sub/file 7"), name).unwrap();
    }
    btrfs(&["filesystem", "sync", "."]);
    // Data that is synced and whose transaction is not committed lies in a log.
    let file = fs::File::create(top.join("sub/in a log")).unwrap();
    file.write_all_at(&[7; 10_000], 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let with_log = workshop.image().with_extension("log");
    fs::copy(workshop.image(), &with_log).unwrap();
    drop(mounted);

    assert_agrees(&workshop.image());
    assert_agrees(&with_log);
    let report = check(&with_log);
    let logs = report
        .trees
        .iter()
        .filter(|tree| tree.name() == Some("log"));
    assert!(logs.count() >= 2, "{:?}", report.trees);
    assert!(report.nodes() + report.leaves() > report.distinct);
}

#[test]
fn one_flipped_bit_in_each_block_in_turn_is_found_and_healed() {
    if !available() {
        return;
    }
    let workshop = Workshop::new().with_files(300);
    for (profile, heals) in [("dup", true), ("single", false)] {
        workshop.mkfs(&["--metadata", profile, "--nodesize", "4096"]);
        let image = Patched::new(&workshop);
        let sound = image.check();
        assert!(sound.is_sound(), "{:?}", sound.bad);
        let copies = image.block_copies();
        assert!(copies.len() > 20);
        for (index, &physical) in copies.iter().enumerate() {
            let mut block = vec![0; image.nodesize];
            image.file.read_exact_at(&mut block, physical).unwrap();
            let bytenr = u64::from_le_bytes(block[48..56].try_into().unwrap());
            let bit = index * 7919 % (block.len() * 8);
            block[bit / 8] ^= 1 << (bit % 8);
            let report = image.with(physical, block).check();
            let bad = report.bad.iter().find(|bad| bad.bytenr == bytenr);
            let bad = bad.unwrap_or_else(|| panic!("bit {bit} of block {bytenr} is not found"));
            assert_eq!(bad.used.is_some(), heals, "{bad}");
            if heals {
                assert_eq!(report.bad.len(), 1, "{:?}", report.bad);
                assert_eq!(report.trees, sound.trees);
            }
        }
    }
}

#[test]
fn the_leaves_of_a_deep_tree_are_read_once_and_many_a_call() {
    if !available() {
        return;
    }
    let workshop = Workshop::new().with_files(3_000);
    workshop.mkfs(&["--metadata", "dup", "--nodesize", "4096"]);
    let image = Patched::new(&workshop);
    let report = image.check();
    assert!(report.is_sound(), "{:?}", report.bad);
    assert!(report.trees.iter().any(|tree| tree.levels > 2));
    let reads = image.reads.borrow();
    let bytes: usize = reads.iter().map(|(_, len)| len).sum();
    let blocks = bytes / image.nodesize;
    // Both copies of each block, and the superblock and its mirror.
    let copies = 2 * usize::try_from(report.distinct).unwrap();
    assert!(
        (copies + 1..=copies + 2).contains(&blocks),
        "{blocks} of {copies}"
    );
    assert!(reads.len() * 4 < blocks, "{} for {blocks}", reads.len());
}

#[test]
fn no_mutation_of_a_real_image_panics_or_takes_long() {
    if !available() {
        return;
    }
    let workshop = Workshop::new().with_files(300);
    workshop.mkfs(&["--metadata", "single", "--nodesize", "4096"]);
    let image = Patched::new(&workshop);
    let copies = image.block_copies();
    let mut random = 1_u64;
    let mut below = move |end: usize| {
        // xorshift64.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % end as u64).unwrap()
    };
    let mut longest = Duration::ZERO;
    for _ in 0..2_000 {
        let (place, len) = match below(copies.len() + 2) {
            n if n < copies.len() => (copies[n], image.nodesize),
            _ => (65536, SUPERBLOCK_LEN),
        };
        let mut block = vec![0; len];
        image.file.read_exact_at(&mut block, place).unwrap();
        for _ in 0..=below(4) {
            let most = [128, 512, len][below(3)];
            block[below(most)] = u8::try_from([0, 1, 255, below(256)][below(4)]).unwrap();
        }
        synthetic::seal(Algorithm::Crc32c, &mut block);
        let started = Instant::now();
        let patched = image.with(place, block);
        let mut pool = Heap::default();
        if let Ok(opened) = Image::open(&patched, &mut pool) {
            opened.check(&mut pool, &mut |_| {});
        }
        longest = longest.max(started.elapsed());
    }
    assert!(longest < Duration::from_secs(10), "{longest:?}");
}

/// An image in a file, with blocks replaced.
struct Patched {
    file: fs::File,
    nodesize: usize,
    len: u64,
    patch: Option<(u64, Vec<u8>)>,
    reads: RefCell<BTreeSet<(u64, usize)>>,
}

impl Patched {
    fn new(workshop: &Workshop) -> Self {
        let file = fs::File::open(workshop.image()).unwrap();
        Self {
            len: file.metadata().unwrap().len(),
            file,
            nodesize: 4096,
            patch: None,
            reads: RefCell::default(),
        }
    }

    fn with(&self, place: u64, bytes: Vec<u8>) -> Self {
        Self {
            file: self.file.try_clone().unwrap(),
            nodesize: self.nodesize,
            len: self.len,
            patch: Some((place, bytes)),
            reads: RefCell::default(),
        }
    }

    fn check(&self) -> extentwise_btrfs::Report {
        let mut pool = Heap::default();
        Image::open(self, &mut pool)
            .unwrap()
            .check(&mut pool, &mut |_| {})
    }

    /// Where all copies of all blocks begin.
    fn block_copies(&self) -> Vec<u64> {
        self.reads.borrow_mut().clear();
        self.check();
        let reads = self.reads.borrow();
        let superblocks = [64 << 10, 64 << 20];
        let places: BTreeSet<u64> = reads
            .iter()
            .flat_map(|&(place, len)| (place..place + len as u64).step_by(self.nodesize))
            .collect();
        places
            .into_iter()
            .filter(|place| !superblocks.contains(place))
            .collect()
    }
}

impl ReadAt for Patched {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.reads.borrow_mut().insert((offset, into.len()));
        self.file.read_exact_at(into, offset)?;
        let Some((place, bytes)) = &self.patch else {
            return Ok(());
        };
        // The part of the patch that lies in what is read.
        for (at, byte) in (*place..).zip(bytes) {
            let index = at.checked_sub(offset).map(usize::try_from);
            if let Some(Ok(index)) = index
                && let Some(into) = into.get_mut(index)
            {
                *into = *byte;
            }
        }
        Ok(())
    }
}

/// A loop mount, undone when it is dropped.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn new(workshop: &Workshop) -> Option<Self> {
        let point = workshop.mount_point();
        let mut command = program("mount");
        command.args(["-t", "btrfs", "-o", "loop"]);
        let output = command.arg(workshop.image()).arg(&point).output().ok()?;
        output.status.success().then_some(Self(point))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = program("umount").arg(&self.0).status();
    }
}
