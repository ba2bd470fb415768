//! What a replay did: for people, and as JSON.

// Counts are shown rounded; the exact ones are in the JSON.
#![allow(clippy::cast_precision_loss)]

use std::fmt;
use std::path::PathBuf;

use extentwise_engine::Counts;
use extentwise_files::{Gauge, Times};
use serde::Serialize;

use crate::report::{count, duration, grouped, row};

/// Counts of the actions of the trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Actions {
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) syncs: u64,
    pub(crate) trims: u64,
}

impl Actions {
    /// Takes those of other files in.
    pub(crate) fn add(&mut self, other: Self) {
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.syncs += other.syncs;
        self.trims += other.trims;
    }
}

/// Counts of what the write path made of them.
#[derive(Debug)]
pub(crate) struct Work {
    /// Folios brought into the cache.
    pub(crate) folios: u64,
    /// Folios that a writeback pass went over.
    pub(crate) folio_passes: u64,
    /// Bytes of blocks that went from clean to dirty.
    pub(crate) dirtied_bytes: u64,
    /// Ordered extents planned.
    pub(crate) ordered_extents: u64,
    pub(crate) bios: u64,
    /// Vectored writes the operating system was asked for.
    pub(crate) device_writes: u64,
    /// The fewest that the trace can be done with.
    pub(crate) least_device_writes: u64,
    /// Bytes it took.
    pub(crate) device_bytes: u64,
    /// Times of the writeback passes: one is an action that wrote back, from its
    /// planning to its last completion.
    pub(crate) writeback: Times,
}

impl Work {
    /// What an engine counted.
    pub(crate) fn of(counts: &Counts, gauge: Gauge, least: u64, writeback: Times) -> Self {
        Self {
            folios: counts.folios,
            folio_passes: counts.passes,
            dirtied_bytes: counts.dirtied_bytes,
            ordered_extents: counts.ordered_extents,
            bios: counts.bios,
            device_writes: gauge.device_writes,
            least_device_writes: least,
            device_bytes: gauge.device_bytes,
            writeback,
        }
    }
}

/// A file as the replay left it.
#[derive(Debug)]
pub(crate) struct ReplayedFile {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
}

/// A replay that ended well: every byte was compared and is right.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) actions: Actions,
    pub(crate) work: Work,
    pub(crate) files: Vec<ReplayedFile>,
    pub(crate) verified_bytes: u64,
}

impl Report {
    /// One JSON object.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&self.json())
    }

    /// The same as a line among others.
    pub(crate) fn to_json_line(&self) -> serde_json::Result<String> {
        let summary = self.json();
        serde_json::to_string(&SummaryLine { summary })
    }

    fn json(&self) -> JsonReport {
        let (actions, work, times) = (&self.actions, &self.work, &self.work.writeback);
        let files = self.files.iter().map(|file| JsonFile {
            path: file.path.display().to_string(),
            size: file.size,
        });
        let rows = times.rows().into_iter();
        JsonReport {
            writes: actions.writes,
            written_bytes: actions.written_bytes,
            reads: actions.reads,
            read_bytes: actions.read_bytes,
            syncs: actions.syncs,
            trims: actions.trims,
            folios: work.folios,
            folio_passes: work.folio_passes,
            dirtied_bytes: work.dirtied_bytes,
            ordered_extents: work.ordered_extents,
            bios: work.bios,
            device_writes: work.device_writes,
            least_device_writes: work.least_device_writes,
            device_bytes: work.device_bytes,
            verified: true,
            verified_bytes: self.verified_bytes,
            files: files.collect(),
            writeback_ns: JsonTimes {
                p50: times.percentile(50),
                p99: times.percentile(99),
                mean: times.mean(),
                count: times.count(),
                histogram: rows.map(|row| [row.low, row.high, row.count]).collect(),
            },
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (actions, work) = (&self.actions, &self.work);
        let dirtied_bytes = work.dirtied_bytes.max(1) as f64;
        row(
            f,
            "actions",
            &format!(
                "{}, {} bytes; {}, {} bytes; {}; {}",
                count(actions.writes, "write"),
                grouped(actions.written_bytes),
                count(actions.reads, "read"),
                grouped(actions.read_bytes),
                count(actions.syncs, "sync"),
                count(actions.trims, "trim"),
            ),
        )?;
        row(
            f,
            "cache",
            &format!(
                "{}, {} bytes dirtied",
                count(work.folios, "folio"),
                grouped(work.dirtied_bytes),
            ),
        )?;
        row(
            f,
            "writeback",
            &format!(
                "{} over {}, {}, {}",
                count(work.writeback.count(), "pass"),
                count(work.folio_passes, "folio"),
                count(work.ordered_extents, "ordered extent"),
                count(work.bios, "bio"),
            ),
        )?;
        row(
            f,
            "device",
            &format!(
                "{} ({} is the least), {} bytes; {:.2} writes per dirtied MiB, {:.3} bytes per byte dirtied",
                count(work.device_writes, "write"),
                grouped(work.least_device_writes),
                grouped(work.device_bytes),
                work.device_writes as f64 * MIB / dirtied_bytes,
                work.device_bytes as f64 / dirtied_bytes,
            ),
        )?;
        write_times(f, &work.writeback)?;
        for file in &self.files {
            row(
                f,
                "file",
                &format!("{}, {} bytes", file.path.display(), grouped(file.size)),
            )?;
        }
        row(
            f,
            "verified",
            &format!(
                "{} bytes, all as the trace wrote them",
                grouped(self.verified_bytes),
            ),
        )
    }
}

const MIB: f64 = (1 << 20) as f64;

#[derive(Serialize)]
struct SummaryLine {
    summary: JsonReport,
}

#[derive(Serialize)]
struct JsonReport {
    writes: u64,
    written_bytes: u64,
    reads: u64,
    read_bytes: u64,
    syncs: u64,
    trims: u64,
    folios: u64,
    folio_passes: u64,
    dirtied_bytes: u64,
    ordered_extents: u64,
    bios: u64,
    device_writes: u64,
    least_device_writes: u64,
    device_bytes: u64,
    verified: bool,
    verified_bytes: u64,
    files: Vec<JsonFile>,
    writeback_ns: JsonTimes,
}

#[derive(Serialize)]
struct JsonFile {
    path: String,
    size: u64,
}

#[derive(Serialize)]
struct JsonTimes {
    p50: u64,
    p99: u64,
    mean: u64,
    count: u64,
    histogram: Vec<[u64; 3]>,
}

fn write_times(f: &mut fmt::Formatter<'_>, times: &Times) -> fmt::Result {
    const BAR_LEN_MAX: u64 = 40;
    if times.count() == 0 {
        return Ok(());
    }
    row(
        f,
        "times",
        &format!(
            "of a writeback pass: p50 {}, p99 {}, mean {}",
            duration(times.percentile(50)),
            duration(times.percentile(99)),
            duration(times.mean()),
        ),
    )?;
    let rows = times.rows();
    let most = rows.iter().map(|row| row.count).max().unwrap_or(1);
    for bar in rows {
        let bar_len = (bar.count * BAR_LEN_MAX).div_ceil(most) as usize;
        row(
            f,
            "",
            &format!(
                "{:>8} .. {:>8} {:>7} {}",
                duration(bar.low),
                duration(bar.high),
                bar.count,
                "#".repeat(bar_len),
            ),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let counts = Counts {
            dirtied_bytes: 1 << 21,
            ..Counts::default()
        };
        let gauge = Gauge {
            device_writes: 3,
            device_bytes: 1 << 20,
            ..Gauge::default()
        };
        let mut times = Times::new();
        times.record(700);
        times.record(1_500_000);
        let work = Work::of(&counts, gauge, 2, times);
        Report {
            actions: Actions {
                writes: 1,
                written_bytes: 1_234_567,
                ..Actions::default()
            },
            work,
            files: vec![ReplayedFile {
                path: "/d/data".into(),
                size: 42,
            }],
            verified_bytes: 42,
        }
    }

    #[test]
    fn the_summary_says_writes_per_mib_and_the_times() {
        let text = report().to_string();
        for expected in [
            "actions    1 write, 1,234,567 bytes; 0 reads,",
            "device     3 writes (2 is the least), 1,048,576 bytes; 1.50 writes per dirtied MiB, 0.500 bytes per byte",
            "2 passes",
            "  512 ns ..   1.0 us       1 ####",
            "file       /d/data, 42 bytes",
            "verified   42 bytes, all",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
    }

    #[test]
    fn the_json_has_the_promised_keys() {
        let json: serde_json::Value =
            serde_json::from_str(&report().to_json().expect("serialises")).expect("parses");
        for key in [
            "writes",
            "written_bytes",
            "reads",
            "syncs",
            "trims",
            "device_writes",
            "device_bytes",
            "bios",
        ] {
            assert!(json[key].is_u64(), "{key}");
        }
        assert_eq!(json["verified"], true);
        assert_eq!(
            json["files"],
            serde_json::json!([{"path": "/d/data", "size": 42}])
        );
        let times = &json["writeback_ns"];
        assert_eq!(times["count"], 2);
        assert_eq!(times["histogram"][0], serde_json::json!([512, 1024, 1]));
        assert!(times["p50"].as_u64() <= times["p99"].as_u64());
    }
}
