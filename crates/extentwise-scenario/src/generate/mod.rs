//! Makes up scenarios: always valid, rich in edges, and the same for fuzz
//! targets (bytes in) and seeded tests (one u64 in).

mod extent_buffer;
mod write_begin;
mod writeback;

use std::ops::Range;

use arbitrary::{Arbitrary, Result, Unstructured};

use crate::{ExtentBufferScenario, Scenario, WriteBeginScenario, WritebackScenario};

/// Bytes that a seed is expanded to; enough for the largest scenario.
const BYTES_PER_SEED: usize = 8192;

/// The most blocks of a generated folio, as a power of two.
const BLOCKS_SHIFT_MAX: u32 = 8;

/// The scenario of a seed; seeds take the kinds in turn.
#[must_use]
pub fn from_seed(seed: u64) -> Scenario {
    match seed % 3 {
        0 => writeback_from_seed(seed).into(),
        1 => write_begin_from_seed(seed).into(),
        _ => extent_buffer_from_seed(seed).into(),
    }
}

/// The writeback scenario of a seed, named after it.
#[must_use]
pub fn writeback_from_seed(seed: u64) -> WritebackScenario {
    WritebackScenario {
        name: format!("seed {seed}"),
        ..of_seed(seed)
    }
}

/// The `write_begin` scenario of a seed, named after it.
#[must_use]
pub fn write_begin_from_seed(seed: u64) -> WriteBeginScenario {
    WriteBeginScenario {
        name: format!("seed {seed}"),
        ..of_seed(seed)
    }
}

/// The `extent_buffer` scenario of a seed, named after it.
#[must_use]
pub fn extent_buffer_from_seed(seed: u64) -> ExtentBufferScenario {
    ExtentBufferScenario {
        name: format!("seed {seed}"),
        ..of_seed(seed)
    }
}

impl Arbitrary<'_> for Scenario {
    fn arbitrary(u: &mut Unstructured<'_>) -> Result<Self> {
        Ok(match u.int_in_range(0..=2)? {
            0 => Scenario::Writeback(WritebackScenario::arbitrary(u)?),
            1 => Scenario::WriteBegin(WriteBeginScenario::arbitrary(u)?),
            _ => Scenario::ExtentBuffer(ExtentBufferScenario::arbitrary(u)?),
        })
    }
}

fn of_seed<T: for<'b> Arbitrary<'b>>(seed: u64) -> T {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(BYTES_PER_SEED);
    while bytes.len() < BYTES_PER_SEED {
        bytes.extend_from_slice(&splitmix64(&mut state).to_le_bytes());
    }
    // `Unstructured` goes on with zeroes where bytes run out, and the
    // implementations in this module pass on no other error.
    T::arbitrary(&mut Unstructured::new(&bytes)).expect("generators accept all bytes")
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 512 to 64 KiB; 4 KiB, the usual one, more often.
fn block_size(u: &mut Unstructured<'_>) -> Result<u64> {
    let shift = *u.choose(&[12, 9, 10, 11, 12, 13, 14, 15, 16])?;
    Ok(1 << shift)
}

/// A power of two of blocks; 64 and 128, where bitmaps end with a word, more
/// often.
fn folio_size(u: &mut Unstructured<'_>, block_size: u64) -> Result<u64> {
    let shift = *u.choose(&[4, 0, 1, 2, 3, 5, 6, 6, 6, 7, 7, BLOCKS_SHIFT_MAX])?;
    Ok(block_size << shift)
}

/// Where a file is looked at: its start, near it, around 2^63, near 2^64, or
/// anywhere. A multiple of `align` (a power of two), at least `2 * align`
/// below 2^64.
fn base(u: &mut Unstructured<'_>, align: u64) -> Result<u64> {
    const SIGNED_LIMIT: u64 = 1 << 63;
    let below_2_64 = |times: u64| u64::MAX - (align * times - 1);
    Ok(match u.int_in_range(0..=9)? {
        0..=4 => 0,
        5 | 6 => align * u.int_in_range(1..=20)?,
        7 => SIGNED_LIMIT - align * u.int_in_range(0..=3)?,
        8 => below_2_64(u.int_in_range(2..=8)?),
        _ => (u.arbitrary::<u64>()? & !(align - 1)).min(below_2_64(2)),
    })
}

/// True `in_ten` times of ten; false where bytes have run out.
fn chance(u: &mut Unstructured<'_>, in_ten: u8) -> Result<bool> {
    Ok(u.int_in_range(0..=9)? >= 10 - in_ten)
}

/// Some of `len` blocks: all, none, one, alternating, dense, sparse, islands,
/// a front or a tail.
fn pattern(u: &mut Unstructured<'_>, len: u64) -> Result<Vec<bool>> {
    let indices = 0..len;
    Ok(match u.int_in_range(0..=9)? {
        0 | 1 => indices.map(|_| true).collect(),
        2 => indices.map(|_| false).collect(),
        3 => {
            let one = u.int_in_range(0..=len - 1)?;
            indices.map(|index| index == one).collect()
        }
        4 => {
            let odd: bool = u.arbitrary()?;
            indices.map(|index| (index % 2 == 1) == odd).collect()
        }
        5 => random_words(u, len, |a, b, c| a | b | c)?,
        6 => random_words(u, len, |a, b, c| a & b & c)?,
        7 => {
            let cut = u.int_in_range(0..=len)?;
            let front: bool = u.arbitrary()?;
            indices.map(|index| (index < cut) == front).collect()
        }
        _ => islands(u, len)?,
    })
}

fn random_words(
    u: &mut Unstructured<'_>,
    len: u64,
    mix: fn(u64, u64, u64) -> u64,
) -> Result<Vec<bool>> {
    let mut bits = Vec::new();
    for word_start in (0..len).step_by(64) {
        let word = mix(u.arbitrary()?, u.arbitrary()?, u.arbitrary()?);
        let bits_of_word = (len - word_start).min(64);
        bits.extend((0..bits_of_word).map(|bit| word >> bit & 1 == 1));
    }
    Ok(bits)
}

fn islands(u: &mut Unstructured<'_>, len: u64) -> Result<Vec<bool>> {
    let mut bits = Vec::new();
    let mut set: bool = u.arbitrary()?;
    let mut left = len;
    while left > 0 {
        let run = u.int_in_range(1..=left.min(24))?;
        bits.extend((0..run).map(|_| set));
        set = !set;
        left -= run;
    }
    Ok(bits)
}

/// The set bits as ranges of the file.
fn ranges_of(bits: &[bool], pos: u64, block_size: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut start = pos;
    for &bit in bits {
        let end = start + block_size;
        if bit {
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        start = end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::parse::parse_line;
    use crate::result::{BufferValue, Event};
    use crate::{MapAnswer, oracle};

    const SEEDS: u64 = 6_000;

    #[test]
    fn every_seed_gives_a_valid_scenario_that_reads_back_the_same() {
        for seed in 0..SEEDS {
            let scenario = from_seed(seed);
            assert_eq!(scenario.check(), Ok(()), "seed {seed}: {scenario}");
            let line = scenario.to_string();
            assert_eq!(parse_line(&line), Ok(scenario), "seed {seed}: {line}");
        }
    }

    #[test]
    fn few_or_no_bytes_give_valid_scenarios_too() {
        for len in 0..200 {
            let bytes = vec![0xff; len];
            let writeback = WritebackScenario::arbitrary(&mut Unstructured::new(&bytes)).unwrap();
            assert_eq!(writeback.check(), Ok(()), "{len} bytes");
            let write = WriteBeginScenario::arbitrary(&mut Unstructured::new(&bytes)).unwrap();
            assert_eq!(write.check(), Ok(()), "{len} bytes");
            let buffer = ExtentBufferScenario::arbitrary(&mut Unstructured::new(&bytes)).unwrap();
            assert_eq!(buffer.check(), Ok(()), "{len} bytes");
        }
    }

    #[test]
    fn writeback_scenarios_reach_every_event_and_outcome() {
        let mut seen = BTreeSet::new();
        for seed in 0..SEEDS {
            let scenario = writeback_from_seed(seed);
            let result = oracle::writeback(&scenario);
            seen.extend(result.events.iter().map(|event| match event {
                Event::Zero { .. } => "zero",
                Event::Submit { .. } => "submit",
                Event::BeyondEof { .. } => "beyond eof",
                Event::MissingOrdered { .. } => "missing",
                Event::Refused { .. } => "refused",
            }));
            for outcome in result.ordered.iter().filter_map(|ordered| ordered.outcome) {
                seen.extend(outcome.insert.map(|_| "insert"));
                seen.extend(outcome.convert.map(|_| "convert"));
                seen.extend(outcome.release.map(|_| "release"));
            }
            seen.extend((!result.double_finish.is_empty()).then_some("double finish"));
            seen.extend((result.error.is_none() && result.mapping_error).then_some("bio failed"));
            seen.extend(
                (result.bios.iter().any(|bio| bio.segments.len() > 1)).then_some("two segments"),
            );
            seen.extend((scenario.i_size > 1 << 63).then_some("high size"));
        }
        assert_eq!(seen.len(), 12, "{seen:?}");
    }

    #[test]
    fn write_begin_scenarios_reach_every_action_and_end() {
        let mut seen = BTreeSet::new();
        for seed in 0..SEEDS {
            let scenario = write_begin_from_seed(seed);
            let result = oracle::write_begin(&scenario);
            let actions = serde_json::to_string(&result.actions).unwrap();
            for answer in MapAnswer::ALL {
                let name = answer.name();
                seen.extend(
                    actions
                        .contains(&format!("\"result\":\"{name}\""))
                        .then_some(name),
                );
            }
            seen.extend(actions.contains("\"zero\"").then_some("zero"));
            seen.extend(actions.contains("\"read\"").then_some("read"));
            seen.extend(result.error.map(|error| match error.kind {
                crate::result::WriteBeginErrorKind::Map => "map error",
                crate::result::WriteBeginErrorKind::Read => "read error",
            }));
            seen.extend(match (scenario.copied, result.committed) {
                (None, _) => Some("open"),
                (Some(0), Some(_)) => Some("abandoned"),
                (Some(_), Some(0)) => Some("short, nothing committed"),
                (Some(copied), Some(_)) if copied < scenario.to - scenario.from => {
                    Some("short, committed")
                }
                (Some(_), Some(_)) => Some("committed"),
                (Some(_), None) => None,
            });
            seen.extend((!scenario.uptodate && result.folio_uptodate).then_some("became uptodate"));
        }
        assert_eq!(seen.len(), 15, "{seen:?}");
    }

    #[test]
    fn extent_buffer_scenarios_reach_every_operation_inside_and_outside() {
        let (mut done, mut refused) = (BTreeSet::new(), BTreeSet::new());
        let mut shared = 0;
        for seed in 0..SEEDS / 4 {
            let scenario = extent_buffer_from_seed(seed);
            let result = oracle::extent_buffer(&scenario);
            shared += u64::from(scenario.node_size < scenario.page_size);
            for (op, value) in scenario.ops.iter().zip(&result.results) {
                match value {
                    BufferValue::OutOfRange => refused.insert(op.name()),
                    _ => done.insert(op.name()),
                };
            }
        }
        assert_eq!(done.len(), 12, "{done:?}");
        // A checksum is always inside.
        assert_eq!(refused.len(), 11, "{refused:?}");
        assert!(shared > SEEDS / 40, "{shared} share a page");
    }
}
