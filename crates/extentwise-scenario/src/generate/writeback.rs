//! Writeback scenarios.

use std::ops::Range;

use arbitrary::{Arbitrary, Result, Unstructured};

use super::{base, block_size, chance, folio_size, pattern, ranges_of};
use crate::{BioLimits, FolioPass, OrderedExtent, OrderedKind, WritebackScenario};

const FOLIOS_MAX: usize = 4;
const ORDERED_MAX: usize = 400;
/// How far into an ordered extent details (finished blocks, failing disk
/// ranges) are placed: where folios are likely to meet it.
const DETAIL_BLOCKS_MAX: u64 = 64;

impl Arbitrary<'_> for WritebackScenario {
    fn arbitrary(u: &mut Unstructured<'_>) -> Result<Self> {
        let block_size = block_size(u)?;
        let bio = bio_limits(u, block_size)?;
        let refuse = refuse(u)?;
        let complete = !chance(u, 2)?;
        let folios = folios(u, block_size)?;
        let mut ordered = ordered(u, block_size, &folios)?;
        let i_size = i_size(u, block_size, &folios, &ordered)?;
        let fail_io = fail_io(u, block_size, &ordered)?;
        if chance(u, 2)? {
            ordered.reverse();
        }
        Ok(Self {
            name: "generated".to_owned(),
            block_size,
            i_size,
            folios,
            ordered,
            bio,
            refuse,
            fail_io,
            complete,
        })
    }
}

fn bio_limits(u: &mut Unstructured<'_>, block_size: u64) -> Result<BioLimits> {
    if chance(u, 5)? {
        return Ok(BioLimits::default());
    }
    Ok(BioLimits {
        max_bytes: block_size * u.choose(&[1, 2, 3, 6, 16, 64])?,
        max_segments: *u.choose(&[1, 2, 3, 256, u64::MAX])?,
    })
}

/// Some of the first attempts, in any order.
fn refuse(u: &mut Unstructured<'_>) -> Result<Vec<u64>> {
    if !chance(u, 3)? {
        return Ok(Vec::new());
    }
    let bits: u16 = u.arbitrary()?;
    let mut refuse: Vec<u64> = (0..12).filter(|index| bits >> index & 1 == 1).collect();
    if u.arbitrary()? {
        refuse.reverse();
    }
    Ok(refuse)
}

fn folios(u: &mut Unstructured<'_>, block_size: u64) -> Result<Vec<FolioPass>> {
    let count = u.int_in_range(1..=FOLIOS_MAX)?;
    let sizes: Vec<u64> = (0..count)
        .map(|_| folio_size(u, block_size))
        .collect::<Result<_>>()?;
    let largest = sizes.iter().copied().max().unwrap_or(block_size);
    let mut cursor = base(u, largest)?;
    let mut folios = Vec::new();
    for size in sizes {
        // Room for the first folio is sure only where `base` put it.
        let gap = match folios.len() {
            0 => 0,
            _ => size * u.choose(&[0, 0, 0, 1, 2])?,
        };
        let span = cursor
            .checked_next_multiple_of(size)
            .and_then(|pos| pos.checked_add(gap))
            .and_then(|pos| Some(pos..pos.checked_add(size)?));
        // Near 2^64 there is room for fewer.
        let Some(span) = span else {
            break;
        };
        cursor = span.end;
        folios.push(folio(u, block_size, &span)?);
    }
    Ok(folios)
}

fn folio(u: &mut Unstructured<'_>, block_size: u64, span: &Range<u64>) -> Result<FolioPass> {
    let size = span.end - span.start;
    let blocks = size / block_size;
    let submit = pattern(u, blocks)?;
    let mut folio = FolioPass::new(span.start, size, ranges_of(&submit, span.start, block_size));
    if chance(u, 3)? {
        let others = pattern(u, blocks)?;
        let dirty: Vec<bool> = submit.iter().zip(&others).map(|(a, b)| a | b).collect();
        folio.dirty = ranges_of(&dirty, span.start, block_size);
    }
    if chance(u, 3)? {
        let start = u.int_in_range(0..=blocks)?;
        let end = u.int_in_range(start..=blocks)?;
        folio.range = span.start + start * block_size..span.start + end * block_size;
    }
    Ok(folio)
}

/// Ordered extents around the folios, with holes between some of them.
fn ordered(
    u: &mut Unstructured<'_>,
    block_size: u64,
    folios: &[FolioPass],
) -> Result<Vec<OrderedExtent>> {
    let (Some(first), Some(last)) = (folios.first(), folios.last()) else {
        return Ok(Vec::new());
    };
    let before = block_size * u.choose(&[0, 0, 1, 2])?;
    let usual_blocks_max = *u.choose(&[64, 2, 4, 16, 300])?;
    let mut cursor = first.pos.saturating_sub(before);
    let mut disk = Disk::arbitrary(u, block_size)?;
    let mut ordered = Vec::new();
    while cursor < last.pos.saturating_add(last.size) && ordered.len() < ORDERED_MAX {
        let hole = match u.int_in_range(0..=9)? {
            0..=6 => 0,
            7 | 8 => u.int_in_range(1..=3)?,
            _ => u.int_in_range(1..=64)?,
        };
        let blocks = match u.int_in_range(0..=49)? {
            49 => 1 << u.int_in_range(20..=46)?,
            _ => u.int_in_range(1..=usual_blocks_max)?,
        };
        let num_bytes = block_size * blocks;
        let span = cursor
            .checked_add(block_size * hole)
            .and_then(|start| Some(start..start.checked_add(num_bytes)?));
        let Some(span) = span else {
            break;
        };
        cursor = span.end;
        let mut extent = disk.place(u, &span)?;
        extent.kind = *u.choose(&[
            OrderedKind::Plain,
            OrderedKind::Plain,
            OrderedKind::Plain,
            OrderedKind::Plain,
            OrderedKind::Nocow,
            OrderedKind::Prealloc,
        ])?;
        if chance(u, 2)? {
            extent.finished = finished(u, block_size, &span)?;
        }
        ordered.push(extent);
    }
    Ok(ordered)
}

/// Where the next extent goes on the device.
struct Disk {
    block_size: u64,
    cursor: u64,
}

impl Disk {
    /// The lowest place handed out; leaves room below for `offset`.
    const START: u64 = 1 << 20;
    /// The highest end; generated extents have at most 2^62 bytes.
    const END_MAX: u64 = 1 << 63;

    fn arbitrary(u: &mut Unstructured<'_>, block_size: u64) -> Result<Self> {
        Ok(Self {
            block_size,
            cursor: *u.choose(&[Self::START, 1 << 44, 1 << 62])?,
        })
    }

    /// An extent for `span`, mostly right behind the one before.
    fn place(&mut self, u: &mut Unstructured<'_>, span: &Range<u64>) -> Result<OrderedExtent> {
        if chance(u, 3)? {
            self.cursor += self.block_size * u.int_in_range(1..=9)?;
        }
        let num_bytes = span.end - span.start;
        let offset = self.block_size * u.choose(&[0, 0, 0, 0, 1, 2, 4])?;
        let behind = self.block_size * u.choose(&[0, 0, 0, 0, 1, 3])?;
        if self.cursor > Self::END_MAX - num_bytes {
            self.cursor = Self::START;
        }
        let extent = OrderedExtent {
            offset,
            disk_num_bytes: offset + num_bytes + behind,
            // The data, not the extent, is what bios see as adjacent.
            ..OrderedExtent::new(span.start, num_bytes, self.cursor - offset)
        };
        self.cursor += num_bytes;
        Ok(extent)
    }
}

/// Ranges that were finished before; never the whole extent.
fn finished(
    u: &mut Unstructured<'_>,
    block_size: u64,
    span: &Range<u64>,
) -> Result<Vec<Range<u64>>> {
    let blocks = (span.end - span.start) / block_size;
    if blocks == 1 {
        return Ok(Vec::new());
    }
    if chance(u, 2)? {
        // All but one block at the front or at the end.
        let all_but_one = if u.arbitrary()? {
            span.start + block_size..span.end
        } else {
            span.start..span.end - block_size
        };
        return Ok(Vec::from([all_but_one]));
    }
    let detail = blocks.min(DETAIL_BLOCKS_MAX);
    let mut bits = pattern(u, detail)?;
    if detail == blocks && bits.iter().all(|&bit| bit) {
        bits.pop();
    }
    Ok(ranges_of(&bits, span.start, block_size))
}

/// The file size: mostly at, just below or just above a place where
/// something begins or ends, or in the middle of a block.
fn i_size(
    u: &mut Unstructured<'_>,
    block_size: u64,
    folios: &[FolioPass],
    ordered: &[OrderedExtent],
) -> Result<u64> {
    let mut edges = vec![0, block_size];
    for folio in folios {
        edges.extend([folio.pos, folio.pos + folio.size]);
    }
    let edge = match u.int_in_range(0..=11)? {
        0..=2 => *u.choose(&edges)?,
        3..=5 => {
            let runs: Vec<u64> = folios
                .iter()
                .flat_map(|folio| &folio.submit)
                .flat_map(|run| [run.start, run.end])
                .collect();
            *u.choose(if runs.is_empty() { &edges } else { &runs })?
        }
        6..=8 if !ordered.is_empty() => {
            let extent = u.choose(ordered)?;
            if u.arbitrary()? {
                extent.end()
            } else {
                extent.file_offset
            }
        }
        9 | 10 => {
            // Any block of a folio, with something cut off it below.
            let folio = u.choose(folios)?;
            folio.pos + u.int_in_range(0..=folio.size)?
        }
        _ => return Ok(*u.choose(&[0, u64::MAX >> 1, 1 << 63, u64::MAX - 1, u64::MAX])?),
    };
    Ok(match u.int_in_range(0..=5)? {
        0..=2 => edge,
        3 => edge.saturating_sub(1),
        4 => edge.saturating_add(1),
        _ => edge.saturating_add(u.int_in_range(1..=block_size - 1)?),
    })
}

/// Disk ranges inside the data of some extents; need not be aligned.
fn fail_io(
    u: &mut Unstructured<'_>,
    block_size: u64,
    ordered: &[OrderedExtent],
) -> Result<Vec<Range<u64>>> {
    if ordered.is_empty() || !chance(u, 3)? {
        return Ok(Vec::new());
    }
    let mut ranges = Vec::new();
    for _ in 0..u.int_in_range(1..=3)? {
        let extent = u.choose(ordered)?;
        let bytes = extent.num_bytes.min(DETAIL_BLOCKS_MAX * block_size);
        let start = extent.disk_bytenr + extent.offset + u.int_in_range(0..=bytes - 1)?;
        let len = *u.choose(&[1, block_size, 3 * block_size])?;
        ranges.push(start..start + len);
    }
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    Ok(merged)
}
