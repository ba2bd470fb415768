//! Small writes into cached folios, ready to be timed.

use std::hint::black_box;
use std::ops::Range;

use extentwise_core::bitmap::words_for;
use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{FileOffset, FileRange, LenBytes};
use extentwise_core::write::{Ask, BufferedWrite, MappingFlags, MappingState, WriteContext};

use crate::pass::{BLOCK, geometry};

const LEN: LenBytes = LenBytes::new(1024);

/// An uptodate and mapped folio, and a place for 1 KiB in its last block.
#[derive(Debug)]
pub(crate) struct Overwrite {
    folio: FolioState<Vec<u64>>,
    maps: MappingState<Vec<u64>>,
    range: FileRange,
}

impl Overwrite {
    pub(crate) fn new(blocks: usize) -> Self {
        let geometry = geometry(blocks);
        let words = |bitmaps: usize| vec![0; bitmaps * words_for(blocks)];
        let mut folio = FolioState::new(geometry, words(3)).expect("the words fit");
        let mut maps = MappingState::unmapped(geometry, words(4)).expect("the words fit");
        folio.mark_folio_uptodate();
        maps.replace(geometry.all(), MappingFlags::MAPPED);
        let last = geometry.size().get() - BLOCK;
        let range = FileRange::at(FileOffset::new(last + 1024), LEN).expect("inside the folio");
        Self { folio, maps, range }
    }

    /// Prepares and commits the write.
    #[inline(never)]
    pub(crate) fn write(&mut self) {
        let range = black_box(self.range);
        let mut write = BufferedWrite::<()>::begin(&self.folio, range).expect("it fits");
        let mut cx = WriteContext {
            folio: &mut self.folio,
            maps: &mut self.maps,
        };
        loop {
            match write.step(&mut cx) {
                Ask::Copy => write.commit(LEN, &mut cx),
                Ask::Committed(len) => {
                    black_box(len);
                    break;
                }
                _ => {}
            }
        }
    }
}

/// The walk that rule V1 avoids: every block of the folio is looked at before the copy
/// and after it. Blocks are heads in a list, of the size that Linux gives a buffer head.
#[derive(Debug)]
pub(crate) struct FullWalk {
    heads: Vec<Head>,
    range: Range<usize>,
}

#[derive(Clone, Debug)]
struct Head {
    flags: Flags,
    next: usize,
    /// What else is in a buffer head: where the block is, whom to tell, who holds it.
    _rest: [u64; 11],
}

/// What a head says of its block.
type Flags = u64;
const UPTODATE: Flags = 1;
const DIRTY: Flags = 2;
const MAPPED: Flags = 4;
const NEW: Flags = 8;

impl FullWalk {
    /// An uptodate and mapped folio, and a place in its last block.
    pub(crate) fn new(blocks: usize) -> Self {
        let head = |block| Head {
            flags: UPTODATE | MAPPED,
            next: (block + 1) % blocks,
            _rest: [0; 11],
        };
        Self {
            heads: (0..blocks).map(head).collect(),
            range: blocks - 1..blocks,
        }
    }

    /// Prepares and commits the write.
    #[inline(never)]
    pub(crate) fn write(&mut self) {
        let range = black_box(self.range.clone());
        let mut to_read_or_map = false;
        self.each(|block, flags| {
            if range.contains(&block) {
                to_read_or_map |= *flags & (UPTODATE | MAPPED) != UPTODATE | MAPPED;
            } else if *flags & UPTODATE != 0 {
                *flags &= !NEW;
            }
        });
        assert!(!to_read_or_map, "the folio is uptodate and mapped");
        let mut partial = false;
        self.each(|block, flags| {
            if range.contains(&block) {
                *flags = (*flags | UPTODATE | DIRTY) & !NEW;
            } else {
                partial |= *flags & UPTODATE == 0;
            }
        });
        black_box(partial);
    }

    fn each(&mut self, mut look: impl FnMut(usize, &mut Flags)) {
        let mut block = 0;
        loop {
            let Some(head) = self.heads.get_mut(block) else {
                return;
            };
            look(block, &mut head.flags);
            block = head.next;
            if block == 0 {
                return;
            }
        }
    }
}
