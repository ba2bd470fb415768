//! A `write_begin` scenario through the core's walk.

use extentwise_core::bitmap::words_for;
use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{
    BlockIndex, BlockRange, BlockSize, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use extentwise_core::write::{
    Ask, BufferedWrite, Mapping, MappingFlags, MappingKind, MappingState, WriteContext, WriteError,
};

use crate::result::{Action, WriteBeginError, WriteBeginErrorKind, WriteBeginResult};
use crate::{BufferFlag, BufferFlags, MapAnswer, WriteBeginScenario};

/// Decides a `write_begin` scenario.
#[must_use]
pub fn write_begin(scenario: &WriteBeginScenario) -> WriteBeginResult {
    let mut result = WriteBeginResult {
        name: scenario.name.clone(),
        actions: Vec::new(),
        error: None,
        committed: None,
        buffers: scenario.buffers.clone(),
        folio_uptodate: scenario.uptodate,
    };
    if let Some((mut folio, mut maps)) = start(scenario) {
        let mut cx = WriteContext {
            folio: &mut folio,
            maps: &mut maps,
        };
        walk(scenario, &mut cx, &mut result);
        result.buffers = (0..folio.geometry().blocks())
            .map(|block| flags_of(BlockIndex::new(block), &folio, &maps))
            .collect();
        result.folio_uptodate = folio.is_uptodate();
    }
    result
}

type Folio = FolioState<Vec<u64>>;
type Maps = MappingState<Vec<u64>>;

/// The folio as the scenario says that it is before the write.
fn start(scenario: &WriteBeginScenario) -> Option<(Folio, Maps)> {
    let block_size = BlockSize::new(scenario.block_size).ok()?;
    let pos = FileOffset::new(scenario.pos);
    let geometry = FolioGeometry::new(pos, LenBytes::new(scenario.size), block_size).ok()?;
    let words = |bitmaps: usize| vec![0; bitmaps * words_for(geometry.blocks())];
    let mut folio = FolioState::new(geometry, words(3)).ok()?;
    let mut maps = MappingState::unmapped(geometry, words(4)).ok()?;
    for (index, flags) in scenario.buffers.iter().enumerate() {
        let block = BlockRange::one(BlockIndex::new(index));
        if flags.contains(BufferFlag::Uptodate) {
            folio.mark_uptodate(block);
        }
        if flags.contains(BufferFlag::Dirty) {
            folio.mark_dirty(block);
        }
        let mut mapping = MappingFlags::empty();
        for (name, flag) in MAPPING_FLAGS {
            mapping.set(flag, flags.contains(name));
        }
        maps.replace(block, mapping);
    }
    if scenario.uptodate {
        folio.mark_folio_uptodate();
    }
    Some((folio, maps))
}

const MAPPING_FLAGS: [(BufferFlag, MappingFlags); 4] = [
    (BufferFlag::Delay, MappingFlags::DELAY),
    (BufferFlag::Mapped, MappingFlags::MAPPED),
    (BufferFlag::New, MappingFlags::NEW),
    (BufferFlag::Unwritten, MappingFlags::UNWRITTEN),
];

/// Answers what the walk asks, and notes it. Reads are answered when the walk
/// waits for them.
fn walk(
    scenario: &WriteBeginScenario,
    cx: &mut WriteContext<'_, Vec<u64>, Vec<u64>>,
    result: &mut WriteBeginResult,
) {
    let geometry = cx.folio.geometry();
    let Some(range) = FileRange::new(
        FileOffset::new(scenario.pos.saturating_add(scenario.from)),
        FileOffset::new(scenario.pos.saturating_add(scenario.to)),
    ) else {
        return;
    };
    let Ok(mut write) = BufferedWrite::<()>::begin(cx.folio, range) else {
        return;
    };
    let mut reads = Vec::new();
    loop {
        match write.step(cx) {
            Ask::Map(block) => {
                let answer = map_answer(scenario, block);
                result.actions.push(Action::Map {
                    block: index(block),
                    result: answer,
                });
                let mapping = kind_of(answer).map(|kind| Mapping {
                    kind,
                    range: geometry.bytes_of(BlockRange::one(block)),
                });
                write.mapped(mapping.ok_or(()), cx);
            }
            Ask::Zero(range) => {
                let into = |at: FileOffset| at.distance_from(geometry.pos()).get();
                result.actions.push(Action::Zero {
                    range: [into(range.start()), into(range.end())],
                });
            }
            Ask::Read(block) => {
                result.actions.push(Action::Read {
                    block: index(block),
                });
                reads.push(block);
            }
            Ask::WaitForReads => {
                for block in reads.drain(..) {
                    let failed = scenario.fail_read.contains(&index(block));
                    write.read_done(block, if failed { Err(()) } else { Ok(()) }, cx);
                }
            }
            Ask::Copy => match scenario.copied {
                Some(copied) => write.commit(LenBytes::new(copied), cx),
                None => return,
            },
            Ask::PublishSize(_) => {}
            Ask::Committed(len) => {
                result.committed = Some(len.get());
                return;
            }
            Ask::Failed(error) => {
                result.error = Some(error_of(&error));
                return;
            }
        }
    }
}

fn map_answer(scenario: &WriteBeginScenario, block: BlockIndex) -> MapAnswer {
    scenario
        .map
        .iter()
        .find(|entry| entry.block == index(block))
        .map_or(scenario.default_map, |entry| entry.result)
}

fn kind_of(answer: MapAnswer) -> Option<MappingKind> {
    match answer {
        MapAnswer::Mapped => Some(MappingKind::Mapped),
        MapAnswer::New => Some(MappingKind::New),
        MapAnswer::Delay => Some(MappingKind::Delay),
        MapAnswer::Unwritten => Some(MappingKind::Unwritten),
        MapAnswer::Error => None,
    }
}

fn error_of(error: &WriteError<()>) -> WriteBeginError {
    let (kind, block) = match error {
        WriteError::Map { block, .. } | WriteError::BadMapping { block } => {
            (WriteBeginErrorKind::Map, block)
        }
        WriteError::Read { block, .. } => (WriteBeginErrorKind::Read, block),
    };
    WriteBeginError {
        kind,
        block: index(*block),
    }
}

fn flags_of(block: BlockIndex, folio: &Folio, maps: &Maps) -> BufferFlags {
    let mapping = maps.flags(block);
    let mut flags = BufferFlags::default();
    for (name, flag) in MAPPING_FLAGS {
        if mapping.contains(flag) {
            flags.insert(name);
        }
    }
    if folio.dirty().test(block) {
        flags.insert(BufferFlag::Dirty);
    }
    if folio.is_block_uptodate(block) {
        flags.insert(BufferFlag::Uptodate);
    }
    flags
}

fn index(block: BlockIndex) -> u64 {
    u64::try_from(block.get()).unwrap_or(u64::MAX)
}
