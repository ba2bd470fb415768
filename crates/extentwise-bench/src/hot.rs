//! Hot paths, each a loop around one thing, for tools that count instructions.

use extentwise_core::writeback::Stride;

use crate::bits::Shape;
use crate::cache::Cache;
use crate::group::{ordered, runs};
use crate::pass::{BLOCKS, Passes};
use crate::write::Overwrite;

/// One of them.
pub(crate) struct HotPath {
    pub(crate) name: &'static str,
    /// Turns of a short run; a long one has twice as many.
    pub(crate) turns: u32,
    /// Sets up, then makes so many turns.
    pub(crate) run: fn(u32),
}

/// Their names are those of the record.
pub(crate) static HOT_PATHS: &[HotPath] = &[
    HotPath {
        name: "pass, 2 MiB all dirty, one extent",
        turns: 2000,
        run: |turns| pass(Shape::Full, BLOCKS, Stride::Extent, turns),
    },
    HotPath {
        name: "pass, alternating blocks",
        turns: 50,
        run: |turns| pass(Shape::Alternating, BLOCKS, Stride::Extent, turns),
    },
    HotPath {
        name: "pass, an extent a block",
        turns: 50,
        run: |turns| pass(Shape::Full, 1, Stride::Extent, turns),
    },
    HotPath {
        name: "pass, stepped block by block",
        turns: 50,
        run: |turns| pass(Shape::Full, BLOCKS, Stride::Block, turns),
    },
    HotPath {
        name: "pass, 16 MiB all dirty, one extent",
        turns: 1000,
        run: |turns| {
            let mut passes = Passes::sized(4096, Shape::Full);
            passes.repeat(Stride::Extent, turns);
        },
    },
    HotPath {
        name: "runs, 4096 bits full",
        turns: 1000,
        run: |turns| runs::repeat(Shape::Full, turns),
    },
    HotPath {
        name: "runs, 4096 bits sparse",
        turns: 1000,
        run: |turns| runs::repeat(Shape::Sparse, turns),
    },
    HotPath {
        name: "runs, 4096 bits alternating",
        turns: 50,
        run: |turns| runs::repeat(Shape::Alternating, turns),
    },
    HotPath {
        name: "runs, 4096 bits random",
        turns: 50,
        run: |turns| runs::repeat(Shape::Random, turns),
    },
    HotPath {
        name: "ordered extent, 10 in flight",
        turns: 1000,
        run: |turns| ordered::repeat(10, turns),
    },
    HotPath {
        name: "ordered extent, 1000 in flight",
        turns: 2000,
        run: |turns| ordered::repeat(1000, turns),
    },
    HotPath {
        name: "begin and end of 1 KiB in 2 MiB",
        turns: 1000,
        run: |turns| {
            let mut overwrite = Overwrite::new(BLOCKS);
            (0..turns).for_each(|_| overwrite.write());
        },
    },
    HotPath {
        name: "engine, a read that hits",
        turns: 1000,
        run: |turns| {
            let mut cache = Cache::new(100, 4096);
            (0..turns).for_each(|_| cache.read(50));
        },
    },
    HotPath {
        name: "engine, overwrite of a cached block",
        turns: 1000,
        run: |turns| {
            let mut cache = Cache::new(100, 4096);
            (0..turns).for_each(|_| cache.write(50));
        },
    },
];

fn pass(dirty: Shape, extent_blocks: usize, stride: Stride, turns: u32) {
    Passes::new(dirty, extent_blocks).repeat(stride, turns);
}

/// Runs the path of this name; false if there is none.
pub(crate) fn run(name: &str, turns: u32) -> bool {
    let path = HOT_PATHS.iter().find(|path| path.name == name);
    if let Some(path) = path {
        (path.run)(turns);
    }
    path.is_some()
}
