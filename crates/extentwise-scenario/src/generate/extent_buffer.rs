//! `extent_buffer` scenarios.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::chance;
use crate::{Backing, Bits, BufferOp, CsumAlgorithm, ExtentBufferScenario, Move, Width};

/// Operations of one scenario.
const OPS_MAX: u32 = 12;
/// Bytes of one `hex`.
const HEX_MAX: u64 = 300;

impl Arbitrary<'_> for ExtentBufferScenario {
    fn arbitrary(u: &mut Unstructured<'_>) -> Result<Self> {
        let node_size = 1 << u.choose(&[14, 14, 12, 13, 15, 16])?;
        let page_size = *u.choose(&[4096, 4096, 16384, 65536])?;
        let start = match u.int_in_range(0..=3)? {
            0 => 0,
            1 => node_size * u.int_in_range(1..=40)?,
            2 => u64::MAX - (node_size - 1),
            _ => u.arbitrary::<u64>()? & !(node_size - 1),
        };
        let backing = *u.choose(&[Backing::Scattered, Backing::Mapped, Backing::Contiguous])?;
        let ops = (0..u.int_in_range(1..=OPS_MAX)?)
            .map(|_| op(u, node_size, page_size))
            .collect::<Result<Vec<BufferOp>>>()?;
        Ok(Self {
            name: "generated".to_owned(),
            node_size,
            page_size,
            start,
            backing,
            ops,
        })
    }
}

fn op(u: &mut Unstructured<'_>, node: u64, page: u64) -> Result<BufferOp> {
    Ok(match u.int_in_range(0..=13)? {
        0..=3 => BufferOp::Move(places(u, node, page)?),
        4 => BufferOp::Copy(places(u, node, page)?),
        5 => BufferOp::Write {
            offset: offset(u, node, page)?,
            bytes: hex(u)?,
        },
        6 => BufferOp::Compare {
            offset: offset(u, node, page)?,
            bytes: near_to_pattern(u)?,
        },
        7 => BufferOp::Fill {
            offset: offset(u, node, page)?,
            len: len(u, node, page)?,
            byte: u.arbitrary()?,
        },
        8 => BufferOp::Read {
            offset: offset(u, node, page)?,
            len: len(u, HEX_MAX, HEX_MAX)?,
        },
        9 => BufferOp::Get {
            offset: offset(u, node, page)?,
            width: *u.choose(&Width::ALL)?,
        },
        10 => {
            let width = *u.choose(&Width::ALL)?;
            BufferOp::Set {
                offset: offset(u, node, page)?,
                width,
                value: u.arbitrary::<u64>()? & width.max_value(),
            }
        }
        11 => BufferOp::TestBit {
            offset: offset(u, node, page)?,
            bit: u.int_in_range(0..=200)?,
        },
        12 => BufferOp::SetBits(bits(u, node, page)?),
        _ if chance(u, 5)? => BufferOp::ClearBits(bits(u, node, page)?),
        _ => BufferOp::Csum(*u.choose(&CsumAlgorithm::ALL)?),
    })
}

/// At the edges of pages and of the block, just beside them, anywhere, or far
/// outside.
fn offset(u: &mut Unstructured<'_>, node: u64, page: u64) -> Result<u64> {
    let edge = page * u.int_in_range(0..=node.div_ceil(page))?;
    Ok(match u.int_in_range(0..=11)? {
        0..=3 => edge.saturating_sub(u.int_in_range(1..=16)?),
        4 | 5 => edge.saturating_add(u.int_in_range(0..=8)?),
        6 => node.saturating_sub(u.int_in_range(0..=9)?),
        7 if chance(u, 3)? => u64::MAX - u.int_in_range(0..=9)?,
        _ => u.int_in_range(0..=node - 1)?,
    })
}

fn len(u: &mut Unstructured<'_>, node: u64, page: u64) -> Result<u64> {
    Ok(match u.int_in_range(0..=11)? {
        0 => 0,
        1 => 1,
        2..=4 => u.int_in_range(2..=64)?,
        5 => page - 1,
        6 => page,
        7 => page + 1,
        8 if chance(u, 2)? => u64::MAX - u.int_in_range(0..=9)?,
        9 => node,
        _ => u.int_in_range(0..=node)?,
    })
}

/// Often near each other, so that they overlap.
fn places(u: &mut Unstructured<'_>, node: u64, page: u64) -> Result<Move> {
    let src = offset(u, node, page)?;
    let dst = if chance(u, 6)? {
        let far = u.int_in_range(0..=300)?;
        if chance(u, 5)? {
            src.saturating_add(far)
        } else {
            src.saturating_sub(far)
        }
    } else {
        offset(u, node, page)?
    };
    let len = len(u, node, page)?;
    let fits = node.saturating_sub(dst.max(src));
    // Most of them fit; what does not touches nothing.
    let len = if chance(u, 8)? { len.min(fits) } else { len };
    Ok(Move { dst, src, len })
}

fn bits(u: &mut Unstructured<'_>, node: u64, page: u64) -> Result<Bits> {
    Ok(Bits {
        offset: offset(u, node, page)?,
        bit: u.int_in_range(0..=90)?,
        len: match u.int_in_range(0..=5)? {
            0 => u.int_in_range(0..=8)?,
            1..=3 => u.int_in_range(0..=200)?,
            4 => u.int_in_range(0..=node * 8)?,
            _ => len(u, node, page)?,
        },
    })
}

fn hex(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let len = u.int_in_range(0..=HEX_MAX)?;
    (0..len).map(|_| u.arbitrary()).collect()
}

/// Short, so that it may be equal to what stands there.
fn near_to_pattern(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let first: u8 = u.arbitrary()?;
    let len = u.int_in_range(0..=6_u8)?;
    Ok((0..len)
        .map(|at| first.wrapping_add(at.wrapping_mul(31)))
        .collect())
}
