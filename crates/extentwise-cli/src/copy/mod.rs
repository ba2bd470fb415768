//! `extentwise copy`: a file, copied through the page cache.
//!
//! The copy is made under another name (`part`) from what the source has of data
//! (`source`), compared if that is asked for (`compare`), and gets its own name
//! when it is whole.

mod compare;
mod part;
mod report;
mod source;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use extentwise_engine::WriteCache;
use extentwise_files::{Durability, Files, Gauge, Rings};

use crate::device::Device;
use crate::interrupt::{Interrupt, Interrupted};
use crate::replay::Mode;
use crate::replay::geometry::Geometry;
use crate::replay::settings::{Policy, Settings, Writers};
use crate::sizes;
use crate::timed::TimedCache;
use crate::watch::{Figures, Watch};

use part::{Existing, Part};
use report::Report;
use source::Source;

/// Copy a file through the page cache
///
/// DST has every byte of SRC, and its permissions. Holes stay holes: they are
/// neither read nor written. Memory is bounded by --cache-size, whatever the file.
///
/// The copy is made beside DST as .NAME.extentwise-part, and gets the name DST when
/// it is whole: a copy that failed or was interrupted (exit code 130) leaves no DST,
/// and with --overwrite the old one. What a killed copy left is used again by the
/// next one. While a copy goes on, another one to the same DST is refused.
///
/// SRC is read through the page cache of the operating system; --device says how
/// DST is written. Without --sync, a crash of the machine may lose a copy that was
/// just made, as with cp.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub struct CopyArgs {
    /// The file to copy: a plain file or a block device
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// The file to make
    #[arg(value_name = "DST")]
    destination: PathBuf,
    /// Replace DST, a plain file, instead of refusing
    #[arg(long)]
    overwrite: bool,
    /// How DST is written
    #[arg(long, value_enum, default_value_t = Device::Buffered)]
    device: Device,
    /// Block size: a power of two from 512 to 64K
    #[arg(long, value_name = "SIZE", default_value = "4096", value_parser = sizes::parse)]
    block_size: u64,
    /// Memory for cached folios: at least two blocks
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = sizes::parse)]
    cache_size: u64,
    /// Make the copy durable before it gets its name, and then the name
    #[arg(long)]
    sync: bool,
    /// Read both files again and compare them before the copy gets its name
    #[arg(long)]
    check: bool,
    /// Print a line of figures each second on standard error
    #[arg(long)]
    stats: bool,
    /// Print one JSON object instead of the summary
    #[arg(long, long_help = JSON_HELP)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  extentwise copy disk.img copy.img
  extentwise copy --device uring --sync --check disk.img /mnt/backup/disk.img
  extentwise copy --overwrite --cache-size 256M --json disk.img copy.img";

const JSON_HELP: &str = "\
Print one JSON object instead of the summary

Keys: source, destination, size, copied_bytes, hole_bytes, device_writes, device_bytes, synced,
checked, nanos (all of it, from the first read to the new name)";

/// The largest folio.
const FOLIO_SIZE: u64 = 2 << 20;
/// The longest ordered extent.
const MAX_EXTENT: u64 = 128 << 20;
/// Bytes between two looks at the clock and at signals.
const STEP_LEN: u64 = 1 << 20;

/// Runs the subcommand.
pub fn run(args: &CopyArgs) -> Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    let (source, destination) = (args.source.display(), args.destination.display());
    let report =
        copy(args, interrupt).with_context(|| format!("copying {source} to {destination}"))?;
    let text = if args.json {
        report.to_json()? + "\n"
    } else {
        report.to_string()
    };
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    written.context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn copy(args: &CopyArgs, interrupt: Interrupt) -> Result<Report> {
    let settings = Settings::new(
        Geometry::new(args.block_size, FOLIO_SIZE, MAX_EXTENT)?,
        args.cache_size,
        None,
        Policy::Keep,
        Mode::Extent,
    )?
    .with_device(args.device);
    let started = Instant::now();
    let source = Source::open(&args.source)?;
    let existing = if args.overwrite {
        Existing::Replace
    } else {
        Existing::Refuse
    };
    let part = Part::make(&args.destination, &source, existing)?;
    let template = "{bar:40} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left {msg}";
    let figures = Figures::when(args.stats);
    let mut watch = Watch::new(source.len(), template, figures, interrupt);
    let durability = if args.sync {
        Durability::Stored
    } else {
        Durability::Handed
    };
    let transfer = Transfer {
        source: &source,
        settings,
        durability,
    };
    let copied = transfer.run(part.path(), &mut watch)?;
    if args.check {
        watch.ends_with("comparing");
        compare::compare(&source, part.path(), copied.size, || {
            refuse_interrupted(&watch, "not every byte was compared")
        })?;
    }
    refuse_interrupted(&watch, "the copy was whole, and has no name")?;
    part.place(&source, durability)?;
    watch.close();
    Ok(Report {
        source: args.source.clone(),
        destination: args.destination.clone(),
        size: copied.size,
        copied_bytes: copied.bytes,
        gauge: copied.gauge,
        synced: args.sync,
        checked: args.check,
        elapsed: started.elapsed(),
    })
}

/// Bytes on their way.
struct Transfer<'a> {
    source: &'a Source,
    settings: Settings,
    durability: Durability,
}

/// What was copied.
struct Copied {
    size: u64,
    /// Without holes.
    bytes: u64,
    gauge: Gauge,
}

impl Transfer<'_> {
    /// Writes the data of the source to the empty file at `path`, and its size.
    fn run(&self, path: &Path, watch: &mut Watch) -> Result<Copied> {
        let mut cache = self.cache(path)?;
        let mut bytes = 0;
        let mut cursor = 0;
        while let Some(data) = self.source.next_data(cursor)? {
            cursor = data.start;
            while cursor < data.end {
                let told = format!("{cursor} of {} bytes were copied", self.source.len());
                refuse_interrupted(watch, &told)?;
                let len = (data.end - cursor).min(STEP_LEN);
                self.write(&mut cache, cursor, len)?;
                bytes += len;
                cursor += len;
                watch.at(cursor, || cache.standing());
            }
        }
        let mut size = self.source.len();
        // Some files do not know their length, and others have grown.
        let mut buffer = vec![0; 64 << 10];
        loop {
            let more = self.source.read(size, &mut buffer)?;
            if more == 0 {
                break;
            }
            refuse_interrupted(watch, &format!("{size} bytes were copied"))?;
            let more = &buffer[..more];
            let len = more.len() as u64;
            cache.call(0, |cache| {
                cache.write(0, size, len, &mut |into, from| {
                    let from = usize::try_from(from).unwrap_or(usize::MAX);
                    let part = more.get(from..).and_then(|rest| rest.get(..into.len()));
                    into.copy_from_slice(part.unwrap_or_default());
                })
            })?;
            size += len;
            bytes += len;
        }
        watch.ends_with("writing back");
        cache.call(0, |cache| cache.resize(0, size))?;
        cache.call(0, |cache| cache.sync(0))?;
        let (cache, _) = cache.into_parts();
        let gauge = cache.gauge();
        Ok(Copied { size, bytes, gauge })
    }

    fn cache(&self, path: &Path) -> Result<TimedCache> {
        let mut config = self.settings.config(Writers::One)?;
        if self.durability == Durability::Handed {
            config.write_cache = WriteCache::WriteThrough;
        }
        let block_size = self.settings.geometry.block_size();
        let paths = [path.to_owned()];
        let files = Files::new(
            &paths,
            self.settings.device.into(),
            Rings::OfDriver,
            block_size,
        )?;
        let files = files.with_durability(self.durability);
        let cache = extentwise_files::alone(config, files)?;
        Ok(TimedCache::new(cache))
    }

    /// The source is read into the cache itself.
    fn write(&self, cache: &mut TimedCache, at: u64, len: u64) -> Result<()> {
        let mut read = Ok(());
        cache.call(0, |cache| {
            cache.write(0, at, len, &mut |into, from| {
                if read.is_ok() {
                    read = self.source.read_exact(at + from, into);
                }
                if read.is_err() {
                    into.fill(0);
                }
            })
        })?;
        read
    }
}

/// Fails if somebody wants to end: with what is not finished.
fn refuse_interrupted(watch: &Watch, told: &str) -> Result<()> {
    if watch.interrupt().is_pending() {
        let told = format!("{told}; there is no new file");
        return Err(Interrupted(told).into());
    }
    Ok(())
}
