//! `extentwise replay`: a recorded I/O log, driven through the write path onto
//! real files.
//!
//! The trace is checked from end to end first (`trace`), then the files are
//! made (`target`), then each action goes through the cache (`session`, `engine`)
//! to the files, by one thread (`alone`) or by many (`threads`); what each byte
//! must be is kept beside it (`model`) and compared in the end (`verify`).

// Lengths inside a buffer are differences of 64-bit file offsets, each bounded
// by the buffer's length before it is cast.
#![allow(clippy::cast_possible_truncation)]

mod alone;
mod course;
mod engine;
mod events;
pub(crate) mod geometry;
mod least;
mod model;
mod names;
mod report;
mod session;
pub(crate) mod settings;
mod target;
mod threads;
mod trace;
mod verify;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::device::Device;
use crate::interrupt::{Interrupt, Interrupted};
use crate::sizes;
use crate::watch::{Figures, Watch};
use events::Events;
use geometry::Geometry;
use model::Model;
use report::{Actions, ReplayedFile, Report, Work};
use settings::{Policy, Settings};
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
/// the time that such an action waited; with `--threads` it is that of one device
/// write.
///
/// While a replay goes on, its files are locked (flock): another one that would
/// write them is refused. Ctrl-C ends it at once, with exit code 130; what syncs
/// had covered by then is in the files.
#[derive(Debug, clap::Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
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
    #[arg(long, value_enum, default_value_t = Device::Buffered)]
    device: Device,
    /// Threads that replay, each its own files of the trace [default: one, which writes back too]
    #[arg(long, value_name = "N", long_help = THREADS_HELP)]
    threads: Option<NonZeroUsize>,
    /// Print a line of figures each second on standard error
    #[arg(long, long_help = STATS_HELP)]
    stats: bool,
    /// Print one JSON object instead of the summary
    #[arg(long, long_help = JSON_HELP)]
    json: bool,
    /// Print a JSON object a line: one for each sync that ended, the summary last
    #[arg(long, conflicts_with = "json", long_help = JSON_LINES_HELP)]
    json_lines: bool,
}

const THREADS_HELP: &str = "\
Threads that replay, each its own files of the trace, through a cache that they share and
that threads of its own write back [default: one thread, which writes back too]

The actions on a file keep their order, so the outcome is the same for any number. The times
of the report are those of single device writes then.";

const STATS_HELP: &str = "\
Print a line of figures each second on standard error, terminal or not

dirty: bytes that wait for writeback; in writeback: bytes that devices have not answered;
device writes so far; p99: the time that 99 of 100 writeback passes did not exceed, or of 100
device writes with --threads.";

const JSON_LINES_HELP: &str = "\
Print a JSON object a line: one for each sync of the trace that ended, the summary last

{\"synced\":{\"path\":P,\"line\":L,\"writes\":W}}: what lines before L wrote to P, up to write
number W of the trace, is durable. The line is printed when that is so, and not before.
{\"summary\":{...}}: the object of --json; without it the replay did not end well.";

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
    let report =
        replay(args, &trace, &settings).with_context(|| args.trace.display().to_string())?;
    let text = if args.json_lines {
        report.to_json_line()? + "\n"
    } else if args.json {
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

/// Makes the files, replays the whole trace onto them and verifies them.
fn replay(args: &ReplayArgs, trace: &Trace, settings: &Settings) -> Result<Report> {
    let existing = if args.overwrite {
        Existing::Overwrite
    } else {
        Existing::Refuse
    };
    let names = names::assign(trace.files())?;
    let folder = match &args.into {
        Some(folder) => folder.clone(),
        None => target::fresh_folder()?,
    };
    let targets = target::prepare(&folder, &names, trace, existing)?;
    let events = if args.json_lines {
        Events::Lines
    } else {
        Events::Silent
    };
    let template = "{bar:40} {percent:>3}% of the trace, {elapsed} {msg}";
    let figures = Figures::when(args.stats);
    let interrupt = Interrupt::listen()?;
    let plan = Plan {
        trace,
        paths: &targets.paths,
        settings,
        events,
        watch: Watch::new(trace.len_bytes(), template, figures, interrupt),
    };
    let replayed = match args.threads {
        None => alone::replay(plan),
        Some(threads) => threads::replay(plan, threads),
    };
    let Outcome {
        actions,
        work,
        models,
        watch,
    } = replayed.map_err(|error| {
        if error.is::<Interrupted>() {
            error.context(format!("files in {}", folder.display()))
        } else {
            error
        }
    })?;
    let mut verified_bytes = 0;
    for (path, model) in targets.paths.iter().zip(&models) {
        if watch.interrupt().is_pending() {
            let all = "every action was replayed, and not every file verified";
            return Err(Interrupted(all.to_owned()).into());
        }
        verified_bytes += verify::verify(path, model).context("verification failed")?;
    }
    watch.close();
    let files = targets.paths.iter().zip(&models);
    Ok(Report {
        actions,
        work,
        files: files
            .map(|(path, model)| ReplayedFile {
                path: path.clone(),
                size: model.len(),
            })
            .collect(),
        verified_bytes,
    })
}

/// What is replayed, and where.
struct Plan<'a> {
    trace: &'a Trace,
    /// The files, which are empty.
    paths: &'a [PathBuf],
    settings: &'a Settings,
    events: Events,
    watch: Watch,
}

/// A trace that was replayed, and is to be verified.
struct Outcome {
    actions: Actions,
    work: Work,
    models: Vec<Model>,
    watch: Watch,
}

/// What somebody hears who ends a replay at this line.
fn interrupted_at(line: u64) -> Interrupted {
    Interrupted(format!(
        "the trace was replayed up to line {line}; what no sync covered may be missing, and \
         nothing was verified"
    ))
}
