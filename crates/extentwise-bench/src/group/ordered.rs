//! Rows 8 and 9: ordered extents that come, are found, and are finished, while so many
//! are in flight.

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;

use extentwise_core::geometry::{DiskByte, FileOffset, FileRange, LenBytes};
use extentwise_core::ordered::{
    FinishObserver, IoOutcome, NewOrdered, OrderedExtent, OrderedId, OrderedTable, TreeStore,
};
use rangemap::RangeMap;

use crate::bits::numbers;
use crate::paired::{Effort, Peer, against_best, time};
use crate::pass::{BLOCK, block_size};
use crate::row::{Bar, Outcome, Row};

/// Bytes of an extent.
const LEN: u64 = 16 * BLOCK;
/// Extents in a batch.
const BATCH: u32 = 512;

pub(crate) fn rows(effort: Effort) -> Vec<Outcome> {
    [("8", 10), ("8", 1_000), ("9", 100_000)]
        .map(|(id, in_flight)| {
            let paired = against_best(
                effort.pairs(),
                {
                    let mut ours = Window::new(Ours(OrderedTable::new(block_size())), in_flight);
                    move || time(BATCH, || ours.turn())
                },
                vec![
                    Peer::new("BTreeMap", {
                        let mut peer = Window::new(Tree::default(), in_flight);
                        move || time(BATCH, || peer.turn())
                    }),
                    Peer::new("rangemap", {
                        let mut peer = Window::new(Ranges::default(), in_flight);
                        move || time(BATCH, || peer.turn())
                    }),
                ],
            );
            let name = format!("extent inserted, found, finished, {in_flight} in flight");
            Row::of_times(id, name, Bar::goal(1.0), paired).into()
        })
        .into()
}

/// So many turns of our table.
pub(crate) fn repeat(in_flight: usize, turns: u32) {
    let mut window = Window::new(Ours(OrderedTable::new(block_size())), in_flight);
    (0..turns).for_each(|_| window.turn());
}

/// What keeps extents: each is asked to refuse an overlap, to find the place on the
/// device of a byte, and to count finished bytes until an extent can go.
trait Extents {
    fn insert(&mut self, start: u64, disk: u64);
    fn disk_of(&self, at: u64) -> Option<u64>;
    fn finish(&mut self, start: u64);
}

/// So many extents in flight: one is added behind the last, some are found, and the
/// first or one near it is finished, as devices answer roughly in order.
struct Window<E> {
    extents: E,
    starts: VecDeque<u64>,
    next: u64,
    number: Box<dyn FnMut() -> u64>,
}

impl<E: Extents> Window<E> {
    fn new(extents: E, in_flight: usize) -> Self {
        let mut window = Self {
            extents,
            starts: VecDeque::new(),
            next: 0,
            number: Box::new(numbers(3)),
        };
        (0..in_flight).for_each(|_| window.add());
        window
    }

    fn add(&mut self) {
        self.extents.insert(self.next, self.next * 2);
        self.starts.push_back(self.next);
        self.next += LEN;
    }

    fn turn(&mut self) {
        self.add();
        let place = (self.number)() as usize % self.starts.len();
        let at = self.starts[place] + LEN / 2;
        assert_eq!(
            black_box(self.extents.disk_of(at)),
            Some(self.starts[place] * 2 + LEN / 2)
        );
        let first = (self.number)() as usize % self.starts.len().min(8);
        if let Some(start) = self.starts.remove(first) {
            self.extents.finish(start);
        }
    }
}

struct Ours(OrderedTable<TreeStore>);

impl Extents for Ours {
    #[inline]
    fn insert(&mut self, start: u64, disk: u64) {
        let spec = NewOrdered::plain(
            FileOffset::new(start),
            LenBytes::new(LEN),
            DiskByte::new(disk),
        );
        let id = self.0.insert(spec);
        debug_assert!(id.is_ok());
        let _ = black_box(id);
    }

    #[inline]
    fn disk_of(&self, at: u64) -> Option<u64> {
        let at = FileOffset::new(at);
        self.0.lookup(at)?.disk_of(at).map(DiskByte::get)
    }

    #[inline]
    fn finish(&mut self, start: u64) {
        let (start, end) = (FileOffset::new(start), FileOffset::new(start + LEN));
        let outcome = IoOutcome::Written { valid_end: end };
        let mut done = Done(None);
        self.0
            .finish(FileRange::clamped(start, end), outcome, &mut done);
        if let Some((id, start)) = done.0 {
            black_box(self.0.remove(id, start));
        }
    }
}

/// The extent that is done, as an engine notes it.
struct Done(Option<(OrderedId, FileOffset)>);

impl FinishObserver for Done {
    #[inline]
    fn completed(&mut self, extent: &OrderedExtent) {
        self.0 = Some((extent.id(), extent.file_offset()));
    }
}

/// By hand, with the least that does the same.
#[derive(Default)]
struct Tree(BTreeMap<u64, Held>);

struct Held {
    end: u64,
    disk: u64,
    left: u64,
}

impl Extents for Tree {
    #[inline]
    fn insert(&mut self, start: u64, disk: u64) {
        let end = start + LEN;
        let before = self.0.range(..end).next_back();
        assert!(before.is_none_or(|(_, held)| held.end <= start), "overlap");
        self.0.insert(
            start,
            Held {
                end,
                disk,
                left: LEN,
            },
        );
    }

    #[inline]
    fn disk_of(&self, at: u64) -> Option<u64> {
        let (start, held) = self.0.range(..=at).next_back()?;
        (at < held.end).then(|| held.disk + (at - start))
    }

    #[inline]
    fn finish(&mut self, start: u64) {
        let Some((_, held)) = self.0.range_mut(..=start).next_back() else {
            return;
        };
        held.left -= LEN;
        if held.left == 0 {
            black_box(self.0.remove(&start));
        }
    }
}

/// It joins neighbours of one value and overwrites; values differ here.
#[derive(Default)]
struct Ranges(RangeMap<u64, (u64, u64)>);

impl Extents for Ranges {
    #[inline]
    fn insert(&mut self, start: u64, disk: u64) {
        let range = start..start + LEN;
        assert!(!self.0.overlaps(&range), "overlap");
        self.0.insert(range, (disk, start));
    }

    #[inline]
    fn disk_of(&self, at: u64) -> Option<u64> {
        let (range, (disk, _)) = self.0.get_key_value(&at)?;
        Some(disk + (at - range.start))
    }

    #[inline]
    fn finish(&mut self, start: u64) {
        self.0.remove(start..start + LEN);
        black_box(&self.0);
    }
}
