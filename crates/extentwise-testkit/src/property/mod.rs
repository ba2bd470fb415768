//! One body a property, and the table of them.
//!
//! A body decodes its bytes into a bounded case (any bytes are some case),
//! runs the core on it, and compares with a plain model. It panics if they
//! differ and is silent otherwise. Bounds keep a run short, since a fuzzer
//! finds more in many small cases than in few large ones.

// What is cast here counts blocks, cells or bytes of one small case.
#![allow(clippy::cast_possible_truncation)]

use std::fmt::{Debug, Write as _};

mod bitmap;
#[cfg(feature = "btrfs")]
mod btrfs_image;
mod canary;
mod choice;
mod engine_ops;
mod errseq;
mod extent_buffer;
#[cfg(feature = "iolog")]
mod iolog;
mod ordered_table;
mod scenario_json;
mod thin_store;
mod write_begin;
mod writeback;
mod writeback_invariants;

pub use bitmap::bitmap;
#[cfg(feature = "btrfs")]
pub use btrfs_image::btrfs_image;
pub use canary::canary;
pub use engine_ops::engine_ops;
pub use errseq::errseq;
pub use extent_buffer::extent_buffer;
#[cfg(feature = "iolog")]
pub use iolog::iolog;
pub use ordered_table::ordered_table;
pub use scenario_json::scenario_json;
pub use thin_store::thin_store;
pub use write_begin::write_begin;
pub use writeback::writeback;
pub use writeback_invariants::writeback_invariants;

/// A property, as those who run them all know it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of the body, of the fuzz target and of the corpus folder.
    pub name: &'static str,
    /// The body; panics where the property does not hold.
    pub run: fn(&[u8]),
    /// The case that bytes decode to: a scenario as a line of JSON where it is
    /// one, else what is done, an operation a line.
    pub describe: fn(&[u8]) -> String,
}

/// Every property that must hold; the [`fn@canary`], which must not, is no part.
pub const TARGETS: &[Target] = &[
    Target {
        name: "writeback",
        run: writeback,
        describe: writeback::describe,
    },
    Target {
        name: "writeback_invariants",
        run: writeback_invariants,
        describe: writeback_invariants::describe,
    },
    Target {
        name: "ordered_table",
        run: ordered_table,
        describe: ordered_table::describe,
    },
    Target {
        name: "write_begin",
        run: write_begin,
        describe: write_begin::describe,
    },
    Target {
        name: "bitmap",
        run: bitmap,
        describe: bitmap::describe,
    },
    Target {
        name: "errseq",
        run: errseq,
        describe: errseq::describe,
    },
    Target {
        name: "extent_buffer",
        run: extent_buffer,
        describe: extent_buffer::describe,
    },
    Target {
        name: "scenario_json",
        run: scenario_json,
        describe: scenario_json::describe,
    },
    Target {
        name: "thin_store",
        run: thin_store,
        describe: thin_store::describe,
    },
    Target {
        name: "engine_ops",
        run: engine_ops,
        describe: engine_ops::describe,
    },
    #[cfg(feature = "iolog")]
    Target {
        name: "iolog",
        run: iolog,
        describe: iolog::describe,
    },
    #[cfg(feature = "btrfs")]
    Target {
        name: "btrfs_image",
        run: btrfs_image,
        describe: btrfs_image::describe,
    },
];

/// The property of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// One operation a line.
fn list(ops: impl Iterator<Item: Debug>) -> String {
    let mut text = String::new();
    for op in ops {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{op:?}");
    }
    text
}
