//! What a device, a writer and a completer do to the passes of one file.

use std::fmt;
use std::num::NonZeroUsize;

use extentwise_core::geometry::{BlockSize, DiskByte, FileOffset, LenBytes};
use extentwise_core::ordered::{NewOrdered, OrderedKind};
use extentwise_core::writeback::Stride;

use super::super::choice::{Choices, base};

const FOLIOS_MAX: u64 = 3;
const EXTENTS_MAX: u64 = 6;

/// Which tables and lists are used.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tables {
    Heap,
    Fixed,
    Counting,
    Mixed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FolioCase {
    pub(super) pos: u64,
    /// Bits are blocks, here and below.
    pub(super) blocks: u32,
    pub(super) dirty: u128,
    pub(super) submit: u128,
    /// The blocks covered.
    pub(super) range: (u32, u32),
    /// Sampled for this folio.
    pub(super) i_size: u64,
}

/// What happens between two steps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Nothing,
    /// One of the bios in flight completes.
    Complete(usize, bool),
    /// These blocks of the file's first folios are finished by nobody's right.
    FinishTwice(u64, u64, bool),
    /// A writer dirties a block of the folio.
    Dirty(u32),
    /// The first extent that is done leaves the table.
    Remove,
    /// An extent is split at this block.
    Split(u64),
}

pub(super) struct Case<'d> {
    pub(super) block: BlockSize,
    pub(super) tables: Tables,
    pub(super) stride: Stride,
    pub(super) max_bytes: Option<LenBytes>,
    pub(super) max_segments: Option<NonZeroUsize>,
    pub(super) folios: Vec<FolioCase>,
    pub(super) extents: Vec<NewOrdered>,
    /// The rest decides what happens as the passes go.
    pub(super) choices: Choices<'d>,
}

impl<'d> Case<'d> {
    pub(super) fn decode(data: &'d [u8]) -> Self {
        let mut choices = Choices::new(data);
        let c = &mut choices;
        let block = BlockSize::new(512 << c.one_of(&[3, 0, 7])).unwrap_or(BlockSize::MIN);
        let tables = c.one_of(&[Tables::Heap, Tables::Fixed, Tables::Counting, Tables::Mixed]);
        let stride = c.one_of(&[
            Stride::Extent,
            Stride::Extent,
            Stride::Extent,
            Stride::Block,
        ]);
        let max_bytes = c.one_of(&[None, Some(1), Some(2), Some(5), Some(64)]);
        let max_segments = c.one_of(&[None, Some(1), Some(2), Some(3)]);
        let folios = folios(c, block.bytes());
        let extents = extents(c, block.bytes(), &folios);
        Self {
            block,
            tables,
            stride,
            max_bytes: max_bytes.map(|blocks| LenBytes::new(blocks * block.bytes())),
            max_segments: max_segments.and_then(NonZeroUsize::new),
            folios,
            extents,
            choices,
        }
    }
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "blocks of {}, {:?} tables, stride {:?}, max_bytes {:?}, max_segments {:?}",
            self.block.bytes(),
            self.tables,
            self.stride,
            self.max_bytes,
            self.max_segments
        )?;
        for folio in &self.folios {
            writeln!(
                f,
                "folio at {} of {} blocks, dirty {:b}, submit {:b}, blocks {:?}, i_size {}",
                folio.pos, folio.blocks, folio.dirty, folio.submit, folio.range, folio.i_size
            )?;
        }
        for extent in &self.extents {
            writeln!(f, "{extent:?}")?;
        }
        writeln!(f, "then, of {:?}", self.choices)
    }
}

/// What happens next, in a file of `blocks` blocks from its first folio on.
pub(super) fn event(choices: &mut Choices<'_>, blocks: u64) -> Event {
    match choices.below(32) {
        0..=15 => Event::Nothing,
        16..=21 => Event::Complete(choices.index(8), !choices.chance(64)),
        22 => {
            let (a, b) = choices.pair(blocks);
            Event::FinishTwice(a, b, choices.chance(128))
        }
        23..=26 => Event::Dirty(u32::from(choices.byte())),
        27..=29 => Event::Remove,
        _ => Event::Split(choices.below(blocks)),
    }
}

fn folios(choices: &mut Choices<'_>, block: u64) -> Vec<FolioCase> {
    const BLOCKS_MAX: u64 = 128;
    let count = 1 + choices.below(FOLIOS_MAX);
    let mut pos = base(choices, block * BLOCKS_MAX);
    let mut folios = Vec::new();
    for _ in 0..count {
        let blocks = choices.one_of(&[8_u32, 1, 2, 4, 16, 64, 128]);
        let size = block * u64::from(blocks);
        let Some(start) = pos.checked_next_multiple_of(size) else {
            break;
        };
        let Some(end) = start.checked_add(size) else {
            break;
        };
        pos = end;
        let all = u128::MAX >> (128 - blocks);
        let submit = pattern(choices, blocks) & all;
        let others = if choices.chance(64) {
            pattern(choices, blocks) & all
        } else {
            0
        };
        let range = if choices.chance(64) {
            let (a, b) = choices.pair(u64::from(blocks));
            (a as u32, b as u32)
        } else {
            (0, blocks)
        };
        folios.push(FolioCase {
            pos: start,
            blocks,
            dirty: submit | others,
            submit,
            range,
            i_size: choices.size_near(block, start, end),
        });
    }
    // One size for the file, mostly; a writer appends between the passes else.
    if !choices.chance(64)
        && let Some(first) = folios.first().map(|folio| folio.i_size)
    {
        for folio in &mut folios {
            folio.i_size = first;
        }
    }
    folios
}

fn pattern(choices: &mut Choices<'_>, blocks: u32) -> u128 {
    match choices.below(8) {
        0..=2 => u128::MAX,
        3 => 0x5555_5555_5555_5555_5555_5555_5555_5555,
        4 => 1 << (choices.below(u64::from(blocks)) as u32),
        5 => {
            let (a, b) = choices.pair(u64::from(blocks));
            bits(a as u32, b as u32)
        }
        6 => !bits(blocks / 3, blocks / 2),
        _ => u128::from(choices.word()) << 64 | u128::from(choices.word()),
    }
}

/// The bits of `[start, end)`.
pub(super) fn bits(start: u32, end: u32) -> u128 {
    let below = |end: u32| u128::MAX.checked_shr(128 - end.min(128)).unwrap_or(0);
    below(end) & !below(start)
}

/// Extents one behind the other, some with a hole between.
fn extents(choices: &mut Choices<'_>, block: u64, folios: &[FolioCase]) -> Vec<NewOrdered> {
    let count = choices.below(EXTENTS_MAX + 1);
    let mut at = folios.first().map_or(0, |folio| folio.pos);
    let mut disk = block << 20;
    let mut extents = Vec::new();
    for _ in 0..count {
        let hole = block * choices.one_of(&[0, 0, 0, 1, 3]);
        let blocks = choices.one_of(&[1_u64, 2, 3, 8, 16, 40, 64, 1 << 20]);
        let Some(start) = at.checked_add(hole) else {
            break;
        };
        let Some(end) = start.checked_add(block * blocks) else {
            break;
        };
        at = end;
        disk += block * choices.one_of(&[0, 0, 1, 7]);
        let offset = block * choices.one_of(&[0, 0, 2]);
        let len = block * blocks;
        let kinds = [
            OrderedKind::Plain,
            OrderedKind::Nocow,
            OrderedKind::Prealloc,
        ];
        extents.push(NewOrdered {
            file_offset: FileOffset::new(start),
            num_bytes: LenBytes::new(len),
            disk_bytenr: DiskByte::new(disk - offset),
            offset: LenBytes::new(offset),
            disk_num_bytes: LenBytes::new(offset + len),
            kind: choices.one_of(&kinds),
        });
        disk += len;
    }
    extents
}
