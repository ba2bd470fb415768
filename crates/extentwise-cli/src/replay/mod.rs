//! `extentwise replay`: a recorded I/O log, driven through the write path onto
//! real files.
//!
//! The trace is checked from end to end first (`trace`), then the files are
//! made (`target`), then each action goes through the cache (`session`,
//! `engine`, `drive`) to the files (`files`); what each byte must be is kept beside it (`model`) and compared
//! in the end (`verify`).

// Lengths inside a buffer are differences of 64-bit file offsets, each bounded
// by the buffer's length before it is cast.
#![allow(clippy::cast_possible_truncation)]

mod drive;
mod engine;
mod files;
mod geometry;
mod least;
mod model;
mod names;
mod pattern;
mod report;
mod session;
mod settings;
mod sizes;
mod target;
mod times;
mod trace;
mod verify;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use geometry::Geometry;
use report::Report;
use session::Session;
use settings::{DeviceKind, Policy, Settings};
use target::Existing;
use trace::Trace;

/// Replay a fio I/O log through the write path onto real files, and verify them
///
/// TRACE is a log of version 2 or 3, as `fio --write_iolog` writes it; `-` is
/// standard input. Each file that it names becomes a file in DIR with the same
/// base name; where two collide, the later one gets a suffix (data, data.1).
/// Nothing is written before the whole trace was read and found sound.
///
/// Writes go into cached folios; syncs, and too much dirty data, write them
/// back: dirty runs become ordered extents, those become bios, those become
/// vectored writes to the file. The bytes of a write depend on its number and
/// its place, so every read of the trace is checked, and in the end every byte
/// of every file is compared through plain reads.
///
/// What the counts mean: a device write is one call of pwritev; dirtied bytes are
/// those of blocks that went from clean to dirty; the least possible device
/// writes are counted from the trace alone, one for each run of dirty blocks at
/// each sync and whenever the dirty limit is reached; a writeback pass is an
/// action that wrote back, from its planning to its last completion; the rows of
/// the histogram are [low, high, count], times from low to below high. With
/// `--device uring`, where device writes go on behind the next actions, it is
/// the time that such an action waited.
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    /// The I/O log to replay; `-` reads standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Folder for the files; made if it is missing [default: a fresh temporary folder, which is printed]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Empty files of DIR that have a name the trace needs, instead of refusing
    #[arg(long)]
    overwrite: bool,
    /// Block size: a power of two from 512 to 64K
    #[arg(long, value_name = "SIZE", default_value = "4096", value_parser = sizes::parse)]
    block_size: u64,
    /// Largest folio in the cache: a power of two from the block size to 256M
    #[arg(long, value_name = "SIZE", default_value = "2M", value_parser = sizes::parse)]
    folio_size: u64,
    /// Longest ordered extent: a multiple of the block size
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = sizes::parse)]
    max_extent: u64,
    /// Memory for cached folios: at least two blocks
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = sizes::parse)]
    cache_size: u64,
    /// Dirty data at which everything is written back [default: 64M, or half of a smaller cache]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    dirty_limit: Option<u64>,
    /// What becomes of data that could not be written
    #[arg(long, value_enum, default_value_t = Policy::Keep)]
    policy: Policy,
    /// How writeback walks a folio
    #[arg(long, value_enum, default_value_t = Mode::Extent)]
    mode: Mode,
    /// How the files are read and written
    #[arg(long, value_enum, default_value_t = DeviceKind::Buffered)]
    device: DeviceKind,
    /// Print one JSON object instead of the summary
    #[arg(long, long_help = JSON_HELP)]
    json: bool,
}

const JSON_HELP: &str = "\
Print one JSON object instead of the summary

Keys: writes, written_bytes, reads, read_bytes, syncs, trims, folios, folio_passes,
dirtied_bytes, ordered_extents, bios, device_writes, least_device_writes, device_bytes, verified (always
true: a file that is wrong is an error instead), verified_bytes, files [{path, size}],
writeback_ns {p50, p99, mean, count, histogram [[low, high, count]]}";

/// How writeback walks a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// Extent by extent
    Extent,
    /// Block by block: slower, and the same bios and bytes
    Block,
}

/// Runs the subcommand.
pub fn run(args: &ReplayArgs) -> Result<ExitCode> {
    let geometry = Geometry::new(args.block_size, args.folio_size, args.max_extent)?;
    let settings = Settings::new(
        geometry,
        args.cache_size,
        args.dirty_limit,
        args.policy,
        args.mode,
    )?
    .with_device(args.device);
    let trace = Trace::open(&args.trace)?;
    let existing = if args.overwrite {
        Existing::Overwrite
    } else {
        Existing::Refuse
    };
    let report = names::assign(trace.files())
        .and_then(|names| {
            let folder = match &args.into {
                Some(folder) => folder.clone(),
                None => target::fresh_folder()?,
            };
            let paths = target::prepare(&folder, &names, &trace, existing)?;
            replay(&trace, Session::new(paths, &settings)?)
        })
        .with_context(|| args.trace.display().to_string())?;
    let text = if args.json {
        report.to_json()? + "\n"
    } else {
        report.to_string()
    };
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// Replays the whole trace and verifies the files.
fn replay(trace: &Trace, mut session: Session) -> Result<Report> {
    /// Actions between two looks at the clock.
    const STEP: u64 = 256;
    let progress = progress_bar(trace.len_bytes());
    let mut records = trace.records()?;
    let mut actions = 0_u64;
    while let Some(record) = records.next() {
        session.apply(record?)?;
        actions += 1;
        if actions.is_multiple_of(STEP) {
            progress.set_position(records.bytes_read());
        }
    }
    progress.set_position(trace.len_bytes());
    progress.set_message("syncing and verifying");
    session.finish()
}

/// A bar over the bytes of the trace, where somebody watches.
fn progress_bar(len_bytes: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{bar:40} {percent:>3}% of the trace, {elapsed} {msg}";
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(len_bytes)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_finish(ProgressFinish::AndClear)
}
