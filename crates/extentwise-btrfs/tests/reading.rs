//! By which calls an image is read, and what comes of those that fail.

use std::cell::RefCell;
use std::io;
use std::ops::Range;

use extentwise_btrfs::synthetic::{Copies, NODESIZE, Synthetic, at};
use extentwise_btrfs::{Heap, Image, Limits, ReadAt, Report};

#[test]
fn neighbours_are_read_in_one_call_from_each_copy() {
    let image = Synthetic::new(Copies::Dup);
    let reader = Reader::of(&image);
    assert!(check(&reader).is_sound());
    let calls = reader.calls.into_inner();
    let first_leaf = image.places(at::LEAVES[0]);
    for place in first_leaf {
        let leaves = place..place + 2 * NODESIZE;
        let of_leaves = calls.iter().filter(|call| overlap(call, &leaves));
        assert_eq!(of_leaves.collect::<Vec<_>>(), [&leaves]);
    }
}

#[test]
fn a_long_read_that_fails_is_told_of_the_block_it_fails_for() {
    let image = Synthetic::new(Copies::Dup);
    let sound = check(&Reader::of(&image));
    for bytenr in at::LEAVES {
        for (index, place) in image.places(bytenr).into_iter().enumerate() {
            let mut reader = Reader::of(&image);
            reader.unreadable = place + 100..place + 101;
            let report = check(&reader);
            let told: Vec<_> = report.bad.iter().map(ToString::to_string).collect();
            let (mirror, used) = (index + 1, 2 - index);
            let expected = format!(
                "block {bytenr}, mirror {mirror}: cannot be read: other error; \
                 mirror {used} is sound and was used"
            );
            assert_eq!(told, [expected]);
            assert_eq!(report.trees, sound.trees);
        }
    }
}

#[test]
fn a_long_read_over_the_end_is_told_of_the_blocks_behind_the_end() {
    let mut image = Synthetic::new(Copies::Single);
    let second_leaf = image.places(at::LEAVES[1])[0];
    image.bytes.truncate(second_leaf + NODESIZE - 1);
    let report = check(&Reader::of(&image));
    let bad: Vec<_> = report.bad.iter().map(|bad| bad.bytenr).collect();
    assert_eq!(bad, [at::LEAVES[1], at::EMPTY]);
    assert_eq!(
        report.bad[0].reason.to_string(),
        "it lies behind the end of the image"
    );
}

#[test]
fn reading_ahead_changes_no_report_of_a_broken_image() {
    let mut state = 1;
    let mut below = |end: usize| {
        // splitmix64 without its last step.
        state = u64::wrapping_add(state, 0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        usize::try_from((z ^ (z >> 27)) % end as u64).unwrap()
    };
    for _ in 0..5_000 {
        let mut image = Synthetic::new([Copies::Single, Copies::Dup][below(2)]);
        for _ in 0..=below(4) {
            let bytenr = at::ALL[below(at::ALL.len())];
            let mirror = 1 + below(image.places(bytenr).len());
            let most = [64, 256, NODESIZE][below(3)];
            image.block_mut(bytenr, mirror)[below(most)] = below(256).to_le_bytes()[0];
        }
        if below(4) > 0 {
            image.seal();
        }
        let limits = Limits {
            steps: [6, 9, 1000][below(3)],
            bad_max: [1, 100][below(2)],
        };
        let ahead = Reader::of(&image);
        let mut one_by_one = Reader::of(&image);
        one_by_one.call_max = NODESIZE;
        let reports = [ahead, one_by_one].map(|reader| {
            let mut pool = Heap::default();
            let image = Image::open_limited(&reader, &mut pool, limits);
            match image {
                Ok(image) => format!("{:?}", image.check(&mut pool, &mut |_| {})),
                Err(error) => error.to_string(),
            }
        });
        assert_eq!(reports[0], reports[1]);
    }
}

fn check(reader: &Reader<'_>) -> Report {
    let mut pool = Heap::default();
    let image = Image::open(reader, &mut pool).unwrap();
    image.check(&mut pool, &mut |_| {})
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// An image in memory that notes the calls, and refuses some.
struct Reader<'a> {
    bytes: &'a [u8],
    calls: RefCell<Vec<Range<usize>>>,
    unreadable: Range<usize>,
    call_max: usize,
}

impl<'a> Reader<'a> {
    fn of(image: &'a Synthetic) -> Self {
        Self {
            bytes: &image.bytes,
            calls: RefCell::default(),
            unreadable: 0..0,
            call_max: usize::MAX,
        }
    }
}

impl ReadAt for Reader<'_> {
    fn len_bytes(&self) -> u64 {
        self.bytes.len_bytes()
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.bytes.read_exact_at(offset, into)?;
        let start = usize::try_from(offset).unwrap();
        let call = start..start + into.len();
        if overlap(&call, &self.unreadable) || into.len() > self.call_max {
            return Err(io::Error::other("refused"));
        }
        self.calls.borrow_mut().push(call);
        Ok(())
    }
}
