//! `write_begin` scenarios.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::{base, block_size, chance, folio_size};
use crate::{BlockMapping, BufferFlag, BufferFlags, MapAnswer, WriteBeginScenario};

impl Arbitrary<'_> for WriteBeginScenario {
    fn arbitrary(u: &mut Unstructured<'_>) -> Result<Self> {
        let block_size = block_size(u)?;
        let size = folio_size(u, block_size)?;
        let pos = base(u, size)?;
        let uptodate = chance(u, 4)?;
        let (from, to) = write(u, block_size, size)?;
        let blocks = size / block_size;
        let met = from / block_size..=(to - 1) / block_size;
        Ok(Self {
            name: "generated".to_owned(),
            block_size,
            pos,
            size,
            uptodate,
            from,
            to,
            default_map: answer(u)?,
            copied: copied(u, block_size, to - from)?,
            map: map(u, met.clone())?,
            fail_read: fail_read(u, &[*met.start(), *met.end()])?,
            buffers: buffers(u, blocks, uptodate)?,
        })
    }
}

/// Ends of the write lie on block borders, just beside them, or anywhere.
fn write(u: &mut Unstructured<'_>, block_size: u64, size: u64) -> Result<(u64, u64)> {
    if chance(u, 1)? {
        return Ok((0, size));
    }
    let blocks = size / block_size;
    let edge = |u: &mut Unstructured<'_>| -> Result<u64> {
        let border = block_size * u.int_in_range(0..=blocks)?;
        Ok(match u.int_in_range(0..=5)? {
            0 | 1 => border,
            2 => border.saturating_sub(1),
            3 => border + 1,
            _ => border + u.int_in_range(0..=block_size - 1)?,
        }
        .min(size))
    };
    let first = edge(u)?;
    // Many writes are small, whatever the folio.
    let second = if chance(u, 4)? {
        first
            .saturating_add(u.int_in_range(1..=3 * block_size)?)
            .min(size)
    } else {
        edge(u)?
    };
    let (from, to) = (first.min(second), first.max(second));
    Ok(match (from, to) {
        (from, to) if from < to => (from, to),
        (0, _) => (0, 1),
        (from, _) => (from - 1, from),
    })
}

/// Errors are rarer than answers.
fn answer(u: &mut Unstructured<'_>) -> Result<MapAnswer> {
    Ok(*u.choose(&[
        MapAnswer::Mapped,
        MapAnswer::Mapped,
        MapAnswer::Mapped,
        MapAnswer::New,
        MapAnswer::New,
        MapAnswer::New,
        MapAnswer::Delay,
        MapAnswer::Delay,
        MapAnswer::Unwritten,
        MapAnswer::Unwritten,
        MapAnswer::Error,
    ])?)
}

/// Answers of their own for a few blocks of the write.
fn map(u: &mut Unstructured<'_>, met: std::ops::RangeInclusive<u64>) -> Result<Vec<BlockMapping>> {
    let mut map: Vec<BlockMapping> = Vec::new();
    for _ in 0..u.int_in_range(0..=4)? {
        let block = u.int_in_range(met.clone())?;
        let result = answer(u)?;
        if map.iter().all(|mapping| mapping.block != block) {
            map.push(BlockMapping { block, result });
        }
    }
    Ok(map)
}

/// Reads meet only the first and the last block.
fn fail_read(u: &mut Unstructured<'_>, edges: &[u64; 2]) -> Result<Vec<u64>> {
    let mut fail: Vec<u64> = Vec::new();
    for &block in edges.iter().rev() {
        if chance(u, 2)? && !fail.contains(&block) {
            fail.push(block);
        }
    }
    Ok(fail)
}

fn copied(u: &mut Unstructured<'_>, block_size: u64, len: u64) -> Result<Option<u64>> {
    Ok(match u.int_in_range(0..=9)? {
        0..=3 => Some(len),
        4 | 5 => None,
        6 => Some(0),
        7 => Some(len - 1),
        8 => Some(block_size.min(len)),
        _ => Some(u.int_in_range(0..=len)?),
    })
}

/// Flags of all blocks: none, all from one mix, or each its own.
fn buffers(u: &mut Unstructured<'_>, blocks: u64, uptodate: bool) -> Result<Vec<BufferFlags>> {
    let blocks = usize::try_from(blocks).unwrap_or(0);
    match u.int_in_range(0..=3)? {
        0 => Ok(vec![BufferFlags::default(); blocks]),
        1 => {
            let flags = flags(u, uptodate)?;
            Ok(vec![flags; blocks])
        }
        2 => {
            let mixes = [flags(u, uptodate)?, flags(u, uptodate)?];
            (0..blocks)
                .map(|_| Ok(mixes[usize::from(u.arbitrary::<bool>()?)]))
                .collect()
        }
        _ => (0..blocks).map(|_| flags(u, uptodate)).collect(),
    }
}

fn flags(u: &mut Unstructured<'_>, folio_uptodate: bool) -> Result<BufferFlags> {
    let bits: u8 = u.arbitrary()?;
    let mut flags: BufferFlags = BufferFlag::ALL
        .into_iter()
        .enumerate()
        .filter_map(|(bit, flag)| (bits >> bit & 1 == 1).then_some(flag))
        .collect();
    if !flags.contains(BufferFlag::Mapped) {
        for needs_mapped in [BufferFlag::New, BufferFlag::Delay, BufferFlag::Unwritten] {
            flags.remove(needs_mapped);
        }
    }
    if !folio_uptodate && !flags.contains(BufferFlag::Uptodate) {
        flags.remove(BufferFlag::Dirty);
    }
    Ok(flags)
}
