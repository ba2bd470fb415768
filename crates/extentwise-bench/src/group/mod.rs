//! Rows that are measured together.

pub(crate) mod cached;
pub(crate) mod counts;
mod decide;
mod device;
mod extent_buffer;
mod index;
pub(crate) mod ordered;
pub(crate) mod runs;
pub(crate) mod state;
mod walk;

use crate::paired::Effort;
use crate::row::Outcome;

/// Rows that share what they need.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Its rows.
    pub(crate) ids: &'static [&'static str],
    /// Whether other checks call it by its name, and hold it to the guards of its rows.
    pub(crate) is_guarded: bool,
    pub(crate) measure: fn(Effort) -> Vec<Outcome>,
}

/// All there is, in the order of the table.
pub(crate) static GROUPS: &[Group] = &[
    Group {
        name: "decide",
        what: "the pass over a folio, the walk of a small write",
        ids: &["1", "2", "3", "4", "5", "10", "11", "stepped"],
        is_guarded: true,
        measure: |effort| {
            let mut rows = decide::rows(effort);
            rows.extend(walk::rows(effort));
            rows
        },
    },
    Group {
        name: "runs",
        what: "runs of set bits",
        ids: &["6", "7"],
        is_guarded: false,
        measure: runs::rows,
    },
    Group {
        name: "ordered",
        what: "ordered extents in flight",
        ids: &["8", "9"],
        is_guarded: false,
        measure: ordered::rows,
    },
    Group {
        name: "extent-buffer",
        what: "access to metadata blocks",
        ids: &["14", "15", "backings"],
        is_guarded: true,
        measure: extent_buffer::rows,
    },
    Group {
        name: "state",
        what: "memory beside the bytes of the cache",
        ids: &["19"],
        is_guarded: false,
        measure: state::rows,
    },
    Group {
        name: "cached",
        what: "small writes through handles, against file systems of the kernel",
        ids: &["12", "13", "20"],
        is_guarded: false,
        measure: cached::rows,
    },
    Group {
        name: "device",
        what: "writes that reach a device, against the kernel's page cache and direct I/O",
        ids: &["16", "17", "18"],
        is_guarded: false,
        measure: device::rows,
    },
    Group {
        name: "index",
        what: "finding a folio among many",
        ids: &["index"],
        is_guarded: true,
        measure: index::rows,
    },
    Group {
        name: "counts",
        what: "instructions of the core's hot paths, against those on record",
        ids: &["instructions"],
        is_guarded: true,
        measure: counts::rows,
    },
];
