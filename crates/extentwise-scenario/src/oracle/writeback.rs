//! Writeback, one block at a time.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::result::{
    BioResult, Event, FolioResult, OrderedFlag, OrderedResult, Outcome, WritebackError,
    WritebackErrorKind, WritebackResult,
};
use crate::{OrderedExtent, OrderedKind, WritebackScenario};

/// Decides a writeback scenario, block by block.
///
/// # Panics
///
/// May panic on a scenario that does not pass its `check`.
#[must_use]
pub fn writeback(scenario: &WritebackScenario) -> WritebackResult {
    let mut pass = Pass::new(scenario);
    for folio in 0..pass.folios.len() {
        pass.write_folio(folio);
    }
    pass.send_bio();
    if scenario.complete {
        pass.complete_bios();
    }
    pass.into_result()
}

struct Pass<'s> {
    scenario: &'s WritebackScenario,
    folios: Vec<Folio>,
    /// In file order.
    ordered: Vec<Ordered<'s>>,
    bio: Option<Bio>,
    sent: Vec<Bio>,
    events: Vec<Event>,
    attempts: u64,
    refuse: BTreeSet<u64>,
    error: Option<WritebackError>,
    bio_failed: bool,
}

struct Folio {
    pos: u64,
    blocks: Vec<Block>,
}

// Five facts about a block that are independent of each other.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Default)]
struct Block {
    to_write: bool,
    dirty: bool,
    writeback: bool,
    finished: bool,
    finished_twice: bool,
}

struct Ordered<'s> {
    extent: &'s OrderedExtent,
    bytes_left: u64,
    truncated_len: u64,
    truncated: bool,
    io_error: bool,
}

struct Bio {
    ordered: usize,
    file_offset: u64,
    disk_bytenr: u64,
    len: u64,
    segments: Vec<Segment>,
}

struct Segment {
    folio: usize,
    file_offset: u64,
    len: u64,
}

/// What is to become of a block that is to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    BeyondEof,
    MissingOrdered,
    Write { ordered: usize },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Finish {
    Ok,
    Error,
}

impl<'s> Pass<'s> {
    fn new(scenario: &'s WritebackScenario) -> Self {
        let mut ordered: Vec<Ordered<'s>> = scenario.ordered.iter().map(Ordered::new).collect();
        ordered.sort_by_key(|ordered| ordered.extent.file_offset);
        Self {
            scenario,
            folios: folios(scenario),
            ordered,
            bio: None,
            sent: Vec::new(),
            events: Vec::new(),
            attempts: 0,
            refuse: scenario.refuse.iter().copied().collect(),
            error: None,
            bio_failed: false,
        }
    }

    /// The blocks to write, in order; neighbours of one fate are one piece
    /// (W3, W4).
    fn write_folio(&mut self, folio: usize) {
        let block_size = self.scenario.block_size;
        let mut pieces: Vec<(Fate, Range<u64>)> = Vec::new();
        let mut start = self.folios[folio].pos;
        for block in &self.folios[folio].blocks {
            let end = start + block_size;
            if block.to_write {
                let fate = self.fate(start);
                match pieces.last_mut() {
                    Some((last, piece)) if *last == fate && piece.end == start => piece.end = end,
                    _ => pieces.push((fate, start..end)),
                }
            }
            start = end;
        }
        for (fate, piece) in pieces {
            match fate {
                Fate::BeyondEof => self.drop_beyond_eof(folio, piece),
                Fate::MissingOrdered => self.drop_missing(folio, piece),
                Fate::Write { ordered } => self.write(folio, ordered, piece),
            }
        }
    }

    fn fate(&self, block: u64) -> Fate {
        // W2: blocks are counted, so no rounding up of the size can overflow.
        let block_size = self.scenario.block_size;
        if block / block_size >= self.scenario.i_size.div_ceil(block_size) {
            return Fate::BeyondEof;
        }
        match self.ordered_at(block) {
            Some(ordered) => Fate::Write { ordered },
            None => Fate::MissingOrdered,
        }
    }

    /// W5: no I/O; every ordered extent is truncated where the piece meets it.
    fn drop_beyond_eof(&mut self, folio: usize, piece: Range<u64>) {
        self.events.push(Event::BeyondEof {
            file_offset: piece.start,
            len: piece.end - piece.start,
        });
        for block in self.blocks(&piece) {
            self.block(folio, block).dirty = false;
            if let Some(ordered) = self.ordered_at(block) {
                self.ordered[ordered].truncate(block);
            }
            self.finish(folio, block, Finish::Ok);
        }
    }

    /// W7: the bio is sent, nothing is finished.
    fn drop_missing(&mut self, folio: usize, piece: Range<u64>) {
        self.send_bio();
        self.events.push(Event::MissingOrdered {
            file_offset: piece.start,
            len: piece.end - piece.start,
        });
        self.fail(WritebackErrorKind::MissingOrdered, piece.start);
        for block in self.blocks(&piece) {
            self.block(folio, block).dirty = false;
        }
    }

    /// W6, or W8 where the device refuses.
    fn write(&mut self, folio: usize, ordered: usize, piece: Range<u64>) {
        let (file_offset, len) = (piece.start, piece.end - piece.start);
        self.zero_behind_size(&piece);
        let refused = self.refuse.contains(&self.attempts);
        self.attempts += 1;
        if refused {
            self.events.push(Event::Refused { file_offset, len });
            self.fail(WritebackErrorKind::Refused, file_offset);
        } else {
            let disk_bytenr = self.ordered[ordered].disk_bytenr(file_offset);
            self.events.push(Event::Submit {
                file_offset,
                len,
                disk_bytenr,
            });
        }
        for block in self.blocks(&piece) {
            self.block(folio, block).dirty = false;
            if refused {
                self.finish(folio, block, Finish::Error);
            } else {
                self.block(folio, block).writeback = true;
                self.queue(folio, ordered, block);
            }
        }
    }

    /// S4: the block that the size ends in is zeroed from there on.
    fn zero_behind_size(&mut self, piece: &Range<u64>) {
        let i_size = self.scenario.i_size;
        let valid = i_size % self.scenario.block_size;
        if valid != 0 && piece.contains(&i_size) {
            self.events.push(Event::Zero {
                file_offset: i_size,
                len: self.scenario.block_size - valid,
            });
        }
    }

    /// S1, S2: one block joins the bio in progress, or starts the next one.
    fn queue(&mut self, folio: usize, ordered: usize, block: u64) {
        let disk_bytenr = self.ordered[ordered].disk_bytenr(block);
        let len = self.scenario.block_size;
        let limits = self.scenario.bio;
        let joins = self.bio.as_ref().is_some_and(|bio| {
            let same_segment = bio.segments.last().is_some_and(|last| last.folio == folio);
            let segments = bio.segments.len() as u64;
            bio.ordered == ordered
                && bio.file_offset + bio.len == block
                && bio.disk_bytenr + bio.len == disk_bytenr
                && bio.len + len <= limits.max_bytes
                && (same_segment || segments < limits.max_segments)
        });
        if !joins {
            self.send_bio();
        }
        let bio = self.bio.get_or_insert_with(|| Bio {
            ordered,
            file_offset: block,
            disk_bytenr,
            len: 0,
            segments: Vec::new(),
        });
        bio.len += len;
        match bio.segments.last_mut() {
            Some(last) if last.folio == folio => last.len += len,
            _ => bio.segments.push(Segment {
                folio,
                file_offset: block,
                len,
            }),
        }
    }

    fn send_bio(&mut self) {
        self.sent.extend(self.bio.take());
    }

    fn complete_bios(&mut self) {
        for bio in std::mem::take(&mut self.sent) {
            let disk = bio.disk_bytenr..bio.disk_bytenr + bio.len;
            let failed = touches(&disk, &self.scenario.fail_io);
            self.bio_failed |= failed;
            let finish = if failed { Finish::Error } else { Finish::Ok };
            for segment in &bio.segments {
                let file = segment.file_offset..segment.file_offset + segment.len;
                for block in self.blocks(&file) {
                    self.block(segment.folio, block).writeback = false;
                    self.finish(segment.folio, block, finish);
                }
            }
            self.sent.push(bio);
        }
    }

    /// O4, for one block.
    fn finish(&mut self, folio: usize, block: u64, finish: Finish) {
        let Some(ordered) = self.ordered_at(block) else {
            return;
        };
        let before = touches(
            &(block..block + self.scenario.block_size),
            &self.ordered[ordered].extent.finished,
        );
        let state = self.block(folio, block);
        if before || state.finished {
            state.finished_twice = true;
            return;
        }
        state.finished = true;
        let block_size = self.scenario.block_size;
        let ordered = &mut self.ordered[ordered];
        ordered.bytes_left -= block_size;
        ordered.io_error |= finish == Finish::Error;
    }

    /// W9: the first error stands.
    fn fail(&mut self, kind: WritebackErrorKind, file_offset: u64) {
        self.error
            .get_or_insert(WritebackError { kind, file_offset });
    }

    fn ordered_at(&self, block: u64) -> Option<usize> {
        let behind = self
            .ordered
            .partition_point(|ordered| ordered.extent.file_offset <= block);
        let ordered = behind.checked_sub(1)?;
        (block < self.ordered[ordered].extent.end()).then_some(ordered)
    }

    fn block(&mut self, folio: usize, block: u64) -> &mut Block {
        let folio = &mut self.folios[folio];
        let index = (block - folio.pos) / self.scenario.block_size;
        &mut folio.blocks[usize::try_from(index).expect("the folio's blocks are in memory")]
    }

    /// The starts of the blocks of `range`.
    fn blocks(&self, range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
        let block_size = self.scenario.block_size;
        (range.start / block_size..range.end / block_size).map(move |index| index * block_size)
    }

    fn into_result(self) -> WritebackResult {
        let block_size = self.scenario.block_size;
        let i_size = self.scenario.i_size;
        let twice = self
            .folios
            .iter()
            .flat_map(|folio| folio.ranges(block_size, |block| block.finished_twice));
        WritebackResult {
            name: self.scenario.name.clone(),
            bios: self.sent.iter().map(|bio| bio.result(i_size)).collect(),
            ordered: self.ordered.iter().map(Ordered::result).collect(),
            folios: self
                .folios
                .iter()
                .map(|folio| FolioResult {
                    pos: folio.pos,
                    dirty: folio.ranges(block_size, |block| block.dirty),
                    writeback: folio.ranges(block_size, |block| block.writeback),
                })
                .collect(),
            error: self.error,
            mapping_error: self.error.is_some() || self.bio_failed,
            double_finish: merge(twice)
                .into_iter()
                .map(|[start, end]| [start, end - start])
                .collect(),
            events: self.events,
        }
    }
}

impl Folio {
    /// `[start, end]` of the blocks for which `fact` holds.
    fn ranges(&self, block_size: u64, fact: impl Fn(&Block) -> bool) -> Vec<[u64; 2]> {
        let starts = (0..).map(|index| self.pos + index * block_size);
        merge(
            self.blocks
                .iter()
                .zip(starts)
                .filter(|(block, _)| fact(block))
                .map(|(_, start)| [start, start + block_size]),
        )
    }
}

impl<'s> Ordered<'s> {
    fn new(extent: &'s OrderedExtent) -> Self {
        let finished: u64 = extent
            .finished
            .iter()
            .map(|range| range.end - range.start)
            .sum();
        Self {
            extent,
            bytes_left: extent.num_bytes - finished,
            truncated_len: extent.num_bytes,
            truncated: false,
            io_error: false,
        }
    }

    fn disk_bytenr(&self, block: u64) -> u64 {
        self.extent.disk_bytenr + self.extent.offset + (block - self.extent.file_offset)
    }

    /// O2: never grows.
    fn truncate(&mut self, at: u64) {
        self.truncated = true;
        self.truncated_len = self.truncated_len.min(at - self.extent.file_offset);
    }

    fn result(&self) -> OrderedResult {
        let io_done = self.bytes_left == 0;
        let kind = self.extent.kind;
        let flags = [
            (io_done, OrderedFlag::IoDone),
            (self.io_error, OrderedFlag::IoError),
            (kind == OrderedKind::Nocow, OrderedFlag::Nocow),
            (kind == OrderedKind::Prealloc, OrderedFlag::Prealloc),
            (self.truncated, OrderedFlag::Truncated),
        ];
        OrderedResult {
            file_offset: self.extent.file_offset,
            num_bytes: self.extent.num_bytes,
            bytes_left: self.bytes_left,
            truncated_len: self.truncated_len,
            flags: flags
                .into_iter()
                .filter_map(|(set, flag)| set.then_some(flag))
                .collect(),
            outcome: io_done.then(|| self.outcome()),
        }
    }

    /// O5.
    fn outcome(&self) -> Outcome {
        let nothing_to_record = self.io_error || self.truncated_len == 0;
        let record = Some([
            self.extent.file_offset,
            self.truncated_len,
            self.disk_bytenr(self.extent.file_offset),
        ]);
        let release = Some([self.extent.disk_bytenr, self.extent.disk_num_bytes]);
        let none = Outcome {
            insert: None,
            convert: None,
            release: None,
        };
        match (self.extent.kind, nothing_to_record) {
            (OrderedKind::Plain, true) => Outcome { release, ..none },
            (OrderedKind::Plain, false) => Outcome {
                insert: record,
                ..none
            },
            (OrderedKind::Prealloc, false) => Outcome {
                convert: record,
                ..none
            },
            (OrderedKind::Prealloc, true) | (OrderedKind::Nocow, _) => none,
        }
    }
}

impl Bio {
    fn result(&self, i_size: u64) -> BioResult {
        BioResult {
            disk_bytenr: self.disk_bytenr,
            len: self.len,
            valid_len: self.len.min(i_size.saturating_sub(self.file_offset)),
            segments: self
                .segments
                .iter()
                .map(|segment| [segment.file_offset, segment.len])
                .collect(),
        }
    }
}

fn folios(scenario: &WritebackScenario) -> Vec<Folio> {
    let block_size = scenario.block_size;
    let mut folios = Vec::with_capacity(scenario.folios.len());
    for pass in &scenario.folios {
        let starts = (pass.pos..pass.pos + pass.size).step_by(to_usize(block_size));
        let (mut dirty, mut submit) = (Membership::new(&pass.dirty), Membership::new(&pass.submit));
        folios.push(Folio {
            pos: pass.pos,
            blocks: starts
                .map(|start| Block {
                    to_write: submit.contains(start) && pass.range.contains(&start),
                    dirty: dirty.contains(start),
                    ..Block::default()
                })
                .collect(),
        });
    }
    folios
}

fn to_usize(block_size: u64) -> usize {
    usize::try_from(block_size).expect("a block size is at most 64 KiB")
}

/// Asks an ascending list for ascending offsets, so that many ranges cost no
/// more than one walk.
struct Membership<'r> {
    ahead: &'r [Range<u64>],
}

impl<'r> Membership<'r> {
    fn new(ranges: &'r [Range<u64>]) -> Self {
        Self { ahead: ranges }
    }

    fn contains(&mut self, offset: u64) -> bool {
        while let [first, rest @ ..] = self.ahead
            && first.end <= offset
        {
            self.ahead = rest;
        }
        self.ahead
            .first()
            .is_some_and(|first| first.contains(&offset))
    }
}

/// Whether `range` meets one of the ascending, disjoint `list`.
fn touches(range: &Range<u64>, list: &[Range<u64>]) -> bool {
    let behind = list.partition_point(|other| other.end <= range.start);
    list.get(behind)
        .is_some_and(|other| other.start < range.end)
}

/// Joins ascending ranges that touch.
fn merge(ranges: impl Iterator<Item = [u64; 2]>) -> Vec<[u64; 2]> {
    let mut merged: Vec<[u64; 2]> = Vec::new();
    for [start, end] in ranges {
        match merged.last_mut() {
            Some(last) if last[1] == start => last[1] = end,
            _ => merged.push([start, end]),
        }
    }
    merged
}
