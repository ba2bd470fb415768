//! The fuzz targets that there are.

/// One target of the package `fuzz`.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) name: &'static str,
    /// Longer inputs hold nothing more: a case is bounded.
    pub(super) len_max: u32,
    /// Executions a second of processor time, without sanitizer.
    pub(super) rate_floor: Option<u64>,
}

/// For targets that run the core and little else; parsers of text are slower.
const CORE: Option<u64> = Some(10_000);

pub(super) const TARGETS: &[Target] = &[
    target("writeback", 512, CORE),
    target("writeback_invariants", 320, CORE),
    target("ordered_table", 160, CORE),
    target("write_begin", 320, CORE),
    target("bitmap", 96, CORE),
    target("errseq", 128, CORE),
    // Gets memory from the system for every case.
    target("extent_buffer", 640, None),
    target("scenario_json", 1536, None),
    target("iolog", 1024, None),
    target("btrfs_image", 257, None),
    // Opens its store again and again, on a device that remembers what was not flushed.
    target("thin_store", 224, None),
    // Brings a page cache, its devices and a byte vector to rest in every case.
    target("engine_ops", 320, None),
];

/// Must crash, so that targets that do not are known to be looked at.
pub(super) const CANARY: &Target = &target("canary", 128, None);

const fn target(name: &'static str, len_max: u32, rate_floor: Option<u64>) -> Target {
    Target {
        name,
        len_max,
        rate_floor,
    }
}

/// The target of this name, or a sentence with the names that there are.
pub(super) fn named(name: &str) -> Result<&'static Target, String> {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        format!(
            "no fuzz target is called `{name}`, only: {}",
            known.join(", ")
        )
    })
}
