//! Buffered writes in one folio, against plain bytes.

mod device;

use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{
    BlockIndex, BlockRange, BlockSize, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use extentwise_core::write::{Ask, BufferedWrite, MappingFlags, MappingState, WriteContext};

use super::choice::{Choices, base};
use device::{Device, MapPlan, Place};

const BLOCK: usize = 512;
const OPS_MAX: usize = 24;
/// What a cache's memory holds where nothing was put.
const JUNK: u8 = 0xEE;
/// What a failed read leaves behind.
const TORN: u8 = 0xDD;

type Folio = FolioState<[u64; 3]>;
type Maps = MappingState<[u64; 4]>;

/// One step of the embedder; offsets are in the folio.
#[derive(Clone, Copy, Debug)]
enum Op {
    Write(Write),
    Read(usize, usize),
    /// Every dirty block goes to the device.
    WriteBack,
    /// Written back, then dropped from the cache.
    Evict,
    /// Written back; then these bytes' whole blocks are dropped, to be read again.
    Invalidate(usize, usize),
    /// These bytes' whole blocks leave the file.
    Punch(usize, usize),
    /// The file ends here.
    Truncate(usize),
}

#[derive(Clone, Copy, Debug)]
struct Write {
    from: usize,
    to: usize,
    /// Bytes that the copy gets done.
    copied: usize,
    map: MapPlan,
    fail_reads: [bool; 2],
    late_reads: bool,
}

impl Write {
    fn meets(&self, block: BlockIndex) -> bool {
        (self.from / BLOCK..self.to.div_ceil(BLOCK)).contains(&block.get())
    }
}

/// Writes that fail in every way, reads, write-backs, evictions, punches and
/// truncates over a folio of real bytes and a device whose fresh blocks hold
/// somebody else's data. A model knows of each byte of the file what may be
/// read: no stale byte is ever seen, no committed byte is lost (V1–V16).
///
/// # Panics
///
/// Where a byte or a flag differs from the model, or a rule is broken.
pub fn write_begin(data: &[u8]) {
    let (mut session, ops) = decode(data);
    for (number, op) in (1_u8..).zip(ops) {
        match op {
            Op::Write(write) => session.write(write, number),
            Op::Read(a, b) => session.read(a, b),
            Op::WriteBack => session.write_back(),
            Op::Evict => session.evict(),
            Op::Invalidate(a, b) => {
                session.write_back();
                session.forget(a, b);
            }
            Op::Punch(a, b) => session.punch(a, b),
            Op::Truncate(size) => session.truncate(size),
        }
        session.check();
    }
    session.read(0, session.model.len());
    session.evict();
    session.read(0, session.model.len());
}

pub(super) fn describe(data: &[u8]) -> String {
    let (session, ops) = decode(data);
    format!(
        "folio of {} blocks of {BLOCK} bytes at {}, file size {} in the folio, device {:?}\n{}",
        session.geometry.blocks(),
        session.geometry.pos(),
        session.size,
        session.device.places,
        super::list(ops)
    )
}

/// The cache, the device and what the file must hold.
struct Session {
    geometry: FolioGeometry,
    folio: Folio,
    maps: Maps,
    memory: Vec<u8>,
    device: Device,
    /// The file's bytes; those at or past `size` are 0.
    model: Vec<u8>,
    /// Where the file ends, as an offset in the folio.
    size: usize,
}

impl Session {
    fn new(pos: u64, places: Vec<Place>, size: usize) -> Option<Self> {
        let len = places.len() * BLOCK;
        let pos = FileOffset::new(pos);
        let geometry = FolioGeometry::new(pos, LenBytes::new(len as u64), BlockSize::MIN).ok()?;
        let device = Device::new(places, BLOCK, size);
        Some(Self {
            geometry,
            folio: FolioState::empty(geometry).ok()?,
            maps: MappingState::empty(geometry).ok()?,
            memory: vec![JUNK; len],
            model: device.contents(),
            device,
            size,
        })
    }

    fn blocks(&self) -> usize {
        self.geometry.blocks()
    }

    fn file_range(&self, from: usize, to: usize) -> FileRange {
        let at = |into: usize| FileOffset::new(self.geometry.pos().get() + into as u64);
        FileRange::new(at(from), at(to)).unwrap_or_default()
    }

    /// The bytes of the folio's memory in a range of the file.
    fn span(&self, range: FileRange) -> std::ops::Range<usize> {
        let into = |at: FileOffset| at.distance_from(self.geometry.pos()).get() as usize;
        into(range.start())..into(range.end())
    }

    fn is_uptodate(&self, block: usize) -> bool {
        self.folio.is_block_uptodate(BlockIndex::new(block))
    }

    /// V15 is the embedder's: what lies between the old end of the file and a
    /// write behind it reads as zero.
    fn zero_gap(&mut self, from: usize) {
        for block in self.size / BLOCK..from.div_ceil(BLOCK) {
            if self.is_uptodate(block) {
                let start = self.size.max(block * BLOCK);
                self.memory[start..from.min((block + 1) * BLOCK)].fill(0);
                self.folio.mark_dirty(one(block));
            }
        }
    }

    fn write(&mut self, plan: Write, number: u8) {
        let Write { from, to, .. } = plan;
        if from > self.size {
            self.zero_gap(from);
        }
        let range = self.file_range(from, to);
        let Ok(mut write) = BufferedWrite::<u8>::begin(&self.folio, range) else {
            panic!("write {from}..{to} lies in the folio");
        };
        let mut reads: Vec<BlockIndex> = Vec::new();
        let (mut asked, mut mapped) = (0, 0);
        let was_whole = self.folio.is_uptodate();
        let mut visible = Vec::new();
        let mut dirty_before = None;
        loop {
            let mut cx = WriteContext {
                folio: &mut self.folio,
                maps: &mut self.maps,
            };
            match write.step(&mut cx) {
                Ask::Map(block) => {
                    assert!(plan.meets(block), "V1: {block:?} of {plan:?}");
                    let end = to.div_ceil(BLOCK);
                    let answer = self.device.map(block.get(), end, plan.map, mapped, range);
                    mapped += 1;
                    let mut cx = WriteContext {
                        folio: &mut self.folio,
                        maps: &mut self.maps,
                    };
                    write.mapped(answer, &mut cx);
                }
                Ask::Zero(zeroed) => {
                    let span = self.span(zeroed);
                    for block in span.start / BLOCK..span.end.div_ceil(BLOCK) {
                        assert!(!self.is_uptodate(block), "V3: zero {span:?}");
                    }
                    self.memory[span].fill(0);
                }
                Ask::Read(block) => {
                    asked += 1;
                    self.check_read(block, plan, asked);
                    reads.push(block);
                    if !plan.late_reads {
                        self.answer_reads(&mut write, &mut reads, plan);
                    }
                }
                Ask::WaitForReads => {
                    assert!(!reads.is_empty(), "no read is outstanding");
                    self.answer_reads(&mut write, &mut reads, plan);
                }
                Ask::Copy => {
                    self.check_visible();
                    visible = (0..self.blocks()).map(|b| self.is_uptodate(b)).collect();
                    self.memory[from..from + plan.copied].fill(number);
                    dirty_before = Some(self.folio.dirty().words()[0]);
                    let mut cx = WriteContext {
                        folio: &mut self.folio,
                        maps: &mut self.maps,
                    };
                    write.commit(LenBytes::new(plan.copied as u64), &mut cx);
                }
                Ask::PublishSize(end) => {
                    let dirty = self.folio.dirty();
                    assert_eq!(
                        Some(dirty.words()[0]),
                        dirty_before,
                        "V14: dirty before the size is out"
                    );
                    let end = end.distance_from(self.geometry.pos()).get() as usize;
                    self.size = self.size.max(end);
                }
                Ask::Committed(len) => {
                    assert!(reads.is_empty(), "V5: a read is still going on");
                    let len = len.get() as usize;
                    assert!(
                        len == plan.copied || len == 0 && plan.copied < to - from && !was_whole,
                        "V8: committed {len} of {plan:?}"
                    );
                    self.after_commit(plan, len, number, &visible);
                    break;
                }
                Ask::Failed(_) => {
                    assert!(reads.is_empty(), "V5: a read is still going on");
                    assert!(
                        self.folio.is_uptodate() == was_whole,
                        "V7, V9: {was_whole} before a failed write"
                    );
                    break;
                }
            }
        }
        self.check_no_new();
    }

    fn check_read(&self, block: BlockIndex, plan: Write, asked: usize) {
        let (start, end) = (block.get() * BLOCK, (block.get() + 1) * BLOCK);
        assert!(asked <= 2, "V4: read {asked} of {plan:?}");
        assert!(
            !self.is_uptodate(block.get()),
            "V4: {block:?} is there already"
        );
        assert!(plan.meets(block), "V1: {block:?} of {plan:?}");
        assert!(
            start < plan.from || end > plan.to,
            "V4: {block:?} is covered whole by {plan:?}"
        );
    }

    fn answer_reads(
        &mut self,
        write: &mut BufferedWrite<u8>,
        reads: &mut Vec<BlockIndex>,
        plan: Write,
    ) {
        // The last that was asked is answered first.
        while let Some(block) = reads.pop() {
            let span = block.get() * BLOCK..(block.get() + 1) * BLOCK;
            let failed = plan.fail_reads[usize::from(block.get() > plan.from / BLOCK)];
            let result = if failed {
                self.memory[span].fill(TORN);
                Err(1)
            } else {
                self.memory[span.clone()].copy_from_slice(&self.device.bytes[span]);
                Ok(())
            };
            let mut cx = WriteContext {
                folio: &mut self.folio,
                maps: &mut self.maps,
            };
            write.read_done(block, result, &mut cx);
        }
    }

    /// What the file holds after a commit (V8): the committed bytes, or, if
    /// nothing was committed, the copied ones that lie in blocks which could be
    /// read when they were copied.
    fn after_commit(&mut self, plan: Write, committed: usize, number: u8, visible: &[bool]) {
        let seen = plan.from..plan.from + plan.copied;
        if committed > 0 {
            self.model[plan.from..plan.from + committed].fill(number);
        } else {
            for at in seen.filter(|at| visible[at / BLOCK]) {
                if at < self.size {
                    self.model[at] = number;
                }
                let block = BlockIndex::new(at / BLOCK);
                assert!(
                    self.folio.dirty().test(block),
                    "V8: {block:?} holds new bytes"
                );
            }
        }
        let met = plan.from / BLOCK..(plan.from + committed).div_ceil(BLOCK);
        for block in met.filter(|_| committed > 0) {
            assert!(
                self.is_uptodate(block) && self.folio.dirty().test(BlockIndex::new(block)),
                "V9: block {block} was committed"
            );
        }
        let all = (0..self.blocks()).all(|block| self.is_uptodate(block));
        assert_eq!(self.folio.is_uptodate(), all, "V9");
    }

    /// No NEW outlives a write that was ended as it must be (V6, V9, V16).
    fn check_no_new(&self) {
        for block in 0..self.blocks() {
            let flags = self.maps.flags(BlockIndex::new(block));
            assert!(
                !flags.contains(MappingFlags::NEW),
                "block {block} stays NEW"
            );
        }
    }

    fn check(&self) {
        self.check_visible();
        for block in 0..self.blocks() {
            let dirty = self.folio.dirty().test(BlockIndex::new(block));
            let fresh = self.device.places[block] == Place::Fresh;
            assert!(
                dirty || !fresh,
                "block {block} was allocated, would not be written, and holds old data"
            );
            assert!(
                !dirty || self.is_uptodate(block),
                "block {block} is dirty and not uptodate"
            );
        }
    }

    /// What can be seen in the cache is what the file holds.
    fn check_visible(&self) {
        for block in (0..self.blocks()).filter(|block| self.is_uptodate(*block)) {
            let start = block * BLOCK;
            let seen = start..self.size.clamp(start, start + BLOCK);
            assert!(
                self.memory[seen.clone()] == self.model[seen.clone()],
                "block {block} reads {} for {}",
                digest(&self.memory[seen.clone()]),
                digest(&self.model[seen])
            );
        }
    }

    /// A reader fills what is not there, then sees what the file holds. It learns
    /// where blocks are; a folio read whole is uptodate as a whole (V2).
    fn read(&mut self, from: usize, to: usize) {
        let stale = self.folio.next_stale(self.geometry.all());
        let whole = to - from == self.model.len() && stale == Some(self.geometry.all());
        for block in from / BLOCK..to.div_ceil(BLOCK) {
            if self.is_uptodate(block) {
                continue;
            }
            let span = block * BLOCK..(block + 1) * BLOCK;
            self.device.read(block, &mut self.memory[span]);
            let known = device::flags_of(self.device.places[block]);
            self.maps.replace(one(block), known);
            if !whole {
                self.folio.mark_uptodate(one(block));
            }
        }
        if whole {
            self.folio.mark_folio_uptodate();
        }
        self.folio.promote_uptodate();
        self.check();
    }

    fn write_back(&mut self) {
        let dirty: Vec<BlockRange> = self.folio.dirty().runs(self.geometry.all()).collect();
        for block in dirty
            .iter()
            .flat_map(|run| run.start().get()..run.end().get())
        {
            let span = block * BLOCK..(block + 1) * BLOCK;
            if span.end > self.size {
                // S4: nothing past the size reaches the device.
                self.memory[self.size.max(span.start)..span.end].fill(0);
            }
            if span.start < self.size {
                self.device.write(block, &self.memory[span]);
                self.maps.replace(one(block), MappingFlags::MAPPED);
            } else {
                self.device.punch(block);
                self.maps.replace(one(block), MappingFlags::empty());
            }
            self.folio.clear_dirty(one(block));
        }
    }

    fn evict(&mut self) {
        self.write_back();
        self.forget(0, self.model.len());
        self.maps
            .replace(self.geometry.all(), MappingFlags::empty());
    }

    /// Drops the whole blocks of a range from the cache.
    fn forget(&mut self, from: usize, to: usize) {
        let Ok(gone) = self.folio.invalidate(self.file_range(from, to)) else {
            panic!("nothing is in writeback");
        };
        let inside = from.div_ceil(BLOCK)..to / BLOCK;
        let expected = (inside.start, inside.end.max(inside.start));
        assert_eq!((gone.start().get(), gone.end().get()), expected, "W13");
        for block in inside {
            self.memory[block * BLOCK..(block + 1) * BLOCK].fill(JUNK);
            assert!(!self.is_uptodate(block), "V2: {block} was invalidated");
        }
    }

    fn punch(&mut self, from: usize, to: usize) {
        self.forget(from, to);
        for block in from.div_ceil(BLOCK)..to / BLOCK {
            self.device.punch(block);
            self.maps.replace(one(block), MappingFlags::empty());
            self.model[block * BLOCK..(block + 1) * BLOCK].fill(0);
        }
    }

    /// Blocks behind the end leave; the tail of the last one is zeroed.
    fn truncate(&mut self, size: usize) {
        if size >= self.size {
            return;
        }
        let block = size / BLOCK;
        if !size.is_multiple_of(BLOCK) && self.device.places[block] != Place::Hole {
            self.read(size, size + 1);
            self.memory[size..(block + 1) * BLOCK].fill(0);
            self.folio.mark_dirty(one(block));
        } else if !size.is_multiple_of(BLOCK) && self.is_uptodate(block) {
            self.memory[size..(block + 1) * BLOCK].fill(0);
        }
        self.model[size..].fill(0);
        self.size = size;
        self.punch(size.next_multiple_of(BLOCK), self.model.len());
    }
}

fn one(block: usize) -> BlockRange {
    BlockRange::one(BlockIndex::new(block))
}

/// Bytes as runs, for messages.
fn digest(bytes: &[u8]) -> String {
    let mut runs: Vec<(u8, usize)> = Vec::new();
    for byte in bytes {
        match runs.last_mut() {
            Some((last, count)) if last == byte => *count += 1,
            _ => runs.push((*byte, 1)),
        }
    }
    format!("{runs:02x?}")
}

fn decode(data: &[u8]) -> (Session, impl Iterator<Item = Op>) {
    let mut choices = Choices::new(data);
    let blocks = choices.one_of(&[4_usize, 1, 2, 8]);
    let len = blocks * BLOCK;
    let pos = base(&mut choices, len as u64);
    let places = (0..blocks).map(|_| device::place(&mut choices)).collect();
    let size = edge(&mut choices, len);
    let Some(session) = Session::new(pos, places, size) else {
        panic!("{blocks} blocks at {pos} are a folio");
    };
    let ops = std::iter::from_fn(move || {
        if choices.is_empty() {
            return None;
        }
        let choices = &mut choices;
        let range = |choices: &mut Choices<'_>| {
            let (a, b) = (edge(choices, len), edge(choices, len));
            (a.min(b), a.max(b))
        };
        Some(match choices.below(16) {
            0..=7 => {
                let (from, to) = range(choices);
                let (from, to) = if from == to {
                    (from.saturating_sub(1), from.max(1))
                } else {
                    (from, to)
                };
                Op::Write(write(choices, from, to))
            }
            8 | 9 => {
                let (a, b) = range(choices);
                Op::Read(a, b)
            }
            10 => Op::WriteBack,
            11 => Op::Evict,
            12 => {
                let (a, b) = range(choices);
                Op::Invalidate(a, b)
            }
            13 => {
                let (a, b) = range(choices);
                Op::Punch(a, b)
            }
            14 => Op::Truncate(edge(choices, len)),
            _ => Op::Read(0, len),
        })
    });
    (session, ops.take(OPS_MAX))
}

fn write(choices: &mut Choices<'_>, from: usize, to: usize) -> Write {
    let len = to - from;
    Write {
        from,
        to,
        copied: match choices.below(8) {
            0..=3 => len,
            4 => 0,
            5 => len - 1,
            _ => choices.index(len + 1),
        },
        map: device::plan(choices),
        fail_reads: [choices.chance(40), choices.chance(40)],
        late_reads: choices.chance(128),
    }
}

/// A place in the folio: a border of a block, beside one, or in the middle.
fn edge(choices: &mut Choices<'_>, len: usize) -> usize {
    let border = BLOCK * choices.index(len / BLOCK + 1);
    match choices.below(8) {
        0..=3 => border,
        4 => border.saturating_sub(1),
        5 => border + 1,
        _ => border + choices.index(BLOCK),
    }
    .min(len)
}
