//! An `extent_buffer` scenario through the core, in memory of its backing.

use std::cmp::Ordering;

use extentwise_checksum::Algorithm;
use extentwise_core::extent_buffer::{BlockMemory, BufferError, ExtentBuffer};
use extentwise_memory::{Backing as MemoryBacking, NodeGeometry, NodeMemory, NodePool};

use crate::extent_buffer::to_hex;
use crate::result::{BufferValue, ExtentBufferResult};
use crate::{Backing, Bits, BufferOp, CsumAlgorithm, ExtentBufferScenario, Move, Width};

/// What the bytes beside the block in its page are.
const NEIGHBOUR: u8 = 0xee;

/// Decides an `extent_buffer` scenario.
#[must_use]
pub fn extent_buffer(scenario: &ExtentBufferScenario) -> ExtentBufferResult {
    let mut result = ExtentBufferResult {
        name: scenario.name.clone(),
        results: Vec::new(),
        sha256: String::new(),
        neighbours_intact: true,
    };
    let Some((mut block, neighbours)) = start(scenario) else {
        return result;
    };
    let values = scenario
        .ops
        .iter()
        .map(|op| apply(&mut block, op).unwrap_or(BufferValue::OutOfRange));
    result.results = values.collect();
    let mut bytes = vec![0; block.len()];
    if block.read(0, &mut bytes).is_ok() {
        result.sha256 = to_hex(&Algorithm::Sha256.of_bytes(&bytes));
    }
    result.neighbours_intact = neighbours.iter().all(is_intact);
    result
}

type Block = ExtentBuffer<NodeMemory>;

/// The block with its first bytes, and the others of its page.
fn start(scenario: &ExtentBufferScenario) -> Option<(Block, Vec<NodeMemory>)> {
    let node_size = usize::try_from(scenario.node_size).ok()?;
    let page_size = usize::try_from(scenario.page_size).ok()?;
    let geometry = NodeGeometry::new(node_size, page_size).ok()?;
    let backing = match scenario.backing {
        Backing::Contiguous => MemoryBacking::Contiguous,
        Backing::Mapped => MemoryBacking::Mapped,
        Backing::Scattered => MemoryBacking::Scattered,
    };
    let mut neighbours = NodePool::new(0).get_page(geometry, backing).ok()?;
    for memory in &mut neighbours {
        memory.fill(NEIGHBOUR);
    }
    let place = usize::try_from(scenario.start % scenario.page_size).ok()? / node_size;
    // A block that fills its pages is the first and only one.
    let place = if neighbours.len() == 1 { 0 } else { place };
    if place >= neighbours.len() {
        return None;
    }
    let mut block = ExtentBuffer::unread(scenario.start, neighbours.remove(place));
    let mut at = 0_usize;
    let read = block.fill_from_device(|chunk| {
        for byte in chunk {
            [*byte, ..] = (at.wrapping_mul(31).wrapping_add(at >> 8)).to_le_bytes();
            at += 1;
        }
        Ok::<(), ()>(())
    });
    read.ok()?;
    Some((block, neighbours))
}

fn is_intact(neighbour: &NodeMemory) -> bool {
    let mut at = 0;
    while at < neighbour.len() {
        let chunk = neighbour.chunk(at);
        if chunk.is_empty() || chunk.iter().any(|byte| *byte != NEIGHBOUR) {
            return false;
        }
        at += chunk.len();
    }
    true
}

fn apply(block: &mut Block, op: &BufferOp) -> Result<BufferValue, BufferError> {
    match *op {
        BufferOp::Read { offset, len } => read(block, offset, len),
        BufferOp::Write { offset, ref bytes } => nothing(block.write(offset, bytes)),
        BufferOp::Compare { offset, ref bytes } => {
            let order = block.compare(offset, bytes)?;
            Ok(BufferValue::Order(match order {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            }))
        }
        BufferOp::Fill { offset, len, byte } => nothing(block.fill(offset, len, byte)),
        BufferOp::Copy(Move { dst, src, len }) | BufferOp::Move(Move { dst, src, len }) => {
            nothing(block.copy_within(dst, src, len))
        }
        BufferOp::Get { offset, width } => {
            let value = match width {
                Width::One => block.get::<u8>(offset)?.into(),
                Width::Two => block.get::<u16>(offset)?.into(),
                Width::Four => block.get::<u32>(offset)?.into(),
                Width::Eight => block.get::<u64>(offset)?,
            };
            Ok(BufferValue::Text(value.to_string()))
        }
        BufferOp::Set {
            offset,
            width,
            value,
        } => nothing(set(block, offset, width, value)),
        BufferOp::TestBit { offset, bit } => {
            Ok(BufferValue::Bit(u8::from(block.test_bit(offset, bit)?)))
        }
        BufferOp::SetBits(Bits { offset, bit, len }) => nothing(block.set_bits(offset, bit, len)),
        BufferOp::ClearBits(Bits { offset, bit, len }) => {
            nothing(block.clear_bits(offset, bit, len))
        }
        BufferOp::Csum(algorithm) => {
            let algorithm = match algorithm {
                CsumAlgorithm::Crc32c => Algorithm::Crc32c,
                CsumAlgorithm::Xxhash64 => Algorithm::Xxhash64,
                CsumAlgorithm::Sha256 => Algorithm::Sha256,
                CsumAlgorithm::Blake2b => Algorithm::Blake2b,
            };
            Ok(BufferValue::Text(to_hex(&algorithm.of(block)?)))
        }
    }
}

/// A length that no block has is refused as one byte more than all would be,
/// without memory for it.
fn read(block: &Block, offset: u64, len: u64) -> Result<BufferValue, BufferError> {
    let more_than_all = block.len() + 1;
    let mut bytes =
        vec![0; usize::try_from(len).map_or(more_than_all, |len| len.min(more_than_all))];
    block.read(offset, &mut bytes)?;
    Ok(BufferValue::Text(to_hex(&bytes)))
}

/// What does not fit the width was refused before.
fn set(block: &mut Block, offset: u64, width: Width, value: u64) -> Result<(), BufferError> {
    match width {
        Width::One => block.set(offset, u8::try_from(value).unwrap_or_default()),
        Width::Two => block.set(offset, u16::try_from(value).unwrap_or_default()),
        Width::Four => block.set(offset, u32::try_from(value).unwrap_or_default()),
        Width::Eight => block.set(offset, value),
    }
}

fn nothing(done: Result<(), BufferError>) -> Result<BufferValue, BufferError> {
    done.map(|()| BufferValue::Nothing)
}
