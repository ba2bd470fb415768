//! `extentwise tree-blocks`: every metadata block of a btrfs image, verified.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use extentwise_btrfs::{
    BackingCounts, BlockPool, BlockView, Dashed, Hex, Image, ImageFile, NodeBlocks, Records,
    Report, Superblock, Tree,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

const EXAMPLES: &str = "\
Examples:
  extentwise tree-blocks disk.img
      a table of trees, and what is wrong where
  extentwise tree-blocks --json disk.img | jq .bad
  extentwise tree-blocks --block 30408704 disk.img
      one block: header, items and bytes
  extentwise tree-blocks --backing scattered disk.img
      the same through buffers whose pages lie apart

JSON keys: nodesize, sectorsize, csum, generation, blocks, nodes, leaves, distinct,
trees [{objectid, nodes, leaves, levels}], bad [{bytenr, mirror, reason, used}],
backing {contiguous, mapped, scattered}; and stopped, where the walk ended early.
A block that snapshots share counts in each of their trees, and once in distinct.
In bad, mirror 0 means that the block has no copy, and used is the mirror that was
sound and served instead, or null. A superblock has its place on the device as bytenr.

Exit code: 0 if nothing is bad; 1 if a block or a copy of one is, or the image cannot be
read or is not supported; 2 if the command line is wrong.";

/// Verify every tree block of a btrfs image
///
/// Reads the superblock and its mirrors, the chunks and every tree, and checks
/// of each block the checksum, address, UUID, generation, level, owner, bounds
/// of items and order of keys. All copies of a block are compared; where one is
/// bad, another is used, and that is told. The image is never written.
///
/// It may be a file or a block device, unmounted. Images with several devices,
/// striped profiles or unknown incompatible features are refused.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TreeBlocksArgs {
    /// The image or block device
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Print one JSON object
    #[arg(long, conflicts_with = "block")]
    json: bool,
    /// Show only the block at this logical address, in decimal or as 0x...
    #[arg(long, value_name = "BYTENR", value_parser = parse_bytenr)]
    block: Option<u64>,
    /// The memory that blocks are read into
    #[arg(long, value_enum, default_value_t = Backing::Contiguous)]
    backing: Backing,
}

/// The memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backing {
    /// One allocation; pages where there is none
    Contiguous,
    /// Pages mapped side by side; pages apart where they cannot be
    Mapped,
    /// Pages apart, copied page by page
    Scattered,
}

impl From<Backing> for extentwise_btrfs::Backing {
    fn from(backing: Backing) -> Self {
        match backing {
            Backing::Contiguous => Self::Contiguous,
            Backing::Mapped => Self::Mapped,
            Backing::Scattered => Self::Scattered,
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &TreeBlocksArgs) -> Result<ExitCode> {
    let (text, outcome) = show(args).with_context(|| args.image.display().to_string())?;
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.context("standard output")?,
    }
    Ok(outcome)
}

/// What is printed, and the exit code.
fn show(args: &TreeBlocksArgs) -> Result<(String, ExitCode)> {
    let pool = &mut NodeBlocks::new(args.backing.into());
    let image = Image::open(ImageFile::open(&args.image)?, pool)?;
    if let Some(bytenr) = args.block {
        let view = image.block(bytenr, pool)?;
        let sound = view.copies.iter().all(|(_, reason)| reason.is_none());
        return Ok((BlockText(&view).to_string(), exit_code(sound)));
    }
    let progress = progress_bar();
    let report = image.check(pool, &mut |blocks| progress.set_position(blocks));
    progress.finish_and_clear();
    let found = Found {
        superblock: image.superblock(),
        report: &report,
        backing: pool.counts(),
    };
    let text = if args.json {
        found.to_json().to_string() + "\n"
    } else {
        found.to_string()
    };
    Ok((text, exit_code(report.is_sound())))
}

/// What is printed of a whole image.
struct Found<'a> {
    superblock: &'a Superblock,
    report: &'a Report,
    backing: BackingCounts,
}

impl Found<'_> {
    fn to_json(&self) -> Value {
        let Self {
            superblock,
            report,
            backing,
        } = self;
        let trees = report.trees.iter().map(|tree| {
            json!({
                "objectid": tree.objectid,
                "nodes": tree.nodes,
                "leaves": tree.leaves,
                "levels": tree.levels,
            })
        });
        let bad = report.bad.iter().map(|bad| {
            json!({
                "bytenr": bad.bytenr,
                "mirror": bad.mirror,
                "reason": bad.reason.to_string(),
                "used": bad.used,
            })
        });
        let (nodes, leaves) = (report.nodes(), report.leaves());
        let mut object = json!({
            "nodesize": superblock.nodesize,
            "sectorsize": superblock.sectorsize,
            "csum": superblock.csum.name(),
            "generation": superblock.generation,
            "blocks": nodes.saturating_add(leaves),
            "nodes": nodes,
            "leaves": leaves,
            "distinct": report.distinct,
            "trees": trees.collect::<Vec<_>>(),
            "bad": bad.collect::<Vec<_>>(),
            "backing": {
                "contiguous": backing.contiguous,
                "mapped": backing.mapped,
                "scattered": backing.scattered,
            },
        });
        if let Some(stopped) = &report.stopped {
            object["stopped"] = stopped.to_string().into();
        }
        object
    }
}

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            superblock,
            report,
            backing,
        } = self;
        writeln!(
            f,
            "btrfs {}, generation {}: nodes of {} bytes, sectors of {}, {}",
            Dashed(&superblock.fsid),
            superblock.generation,
            superblock.nodesize,
            superblock.sectorsize,
            superblock.csum.name()
        )?;
        let names: Vec<_> = report.trees.iter().map(tree_name).collect();
        let width = names.iter().map(String::len).max().unwrap_or(0).max(5);
        writeln!(f, "\n{:width$}  levels     nodes    leaves", "tree")?;
        for (name, tree) in names.iter().zip(&report.trees) {
            let (levels, nodes, leaves) = (tree.levels, tree.nodes, tree.leaves);
            writeln!(f, "{name:width$}  {levels:6} {nodes:9} {leaves:9}")?;
        }
        let (nodes, leaves) = (report.nodes(), report.leaves());
        writeln!(f, "{:width$}         {nodes:9} {leaves:9}", "total")?;
        writeln!(
            f,
            "\n{} blocks, read into memory: {} contiguous, {} mapped, {} scattered",
            report.distinct, backing.contiguous, backing.mapped, backing.scattered
        )?;
        if let Some(stopped) = &report.stopped {
            writeln!(f, "\nnot everything was seen: {stopped}")?;
        }
        if report.bad.is_empty() {
            return writeln!(f, "nothing is bad");
        }
        writeln!(f, "\n{} bad:", report.bad.len())?;
        report.bad.iter().try_for_each(|bad| writeln!(f, "{bad}"))
    }
}

/// One block, as people read it.
struct BlockText<'a>(&'a BlockView);

impl fmt::Display for BlockText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockView {
            mirror,
            copies,
            header,
            records,
            bytes,
        } = self.0;
        for (copy, reason) in copies {
            write!(f, "mirror {} at byte {}: ", copy.mirror, copy.physical)?;
            match reason {
                None => writeln!(f, "sound")?,
                Some(reason) => writeln!(f, "{reason}")?,
            }
        }
        writeln!(f, "\nheader of mirror {mirror}")?;
        writeln!(f, "  csum             {}", Hex(&header.csum))?;
        writeln!(f, "  fsid             {}", Dashed(&header.fsid))?;
        writeln!(f, "  bytenr           {}", header.bytenr)?;
        writeln!(f, "  flags            {:#x}", header.flags)?;
        writeln!(f, "  chunk_tree_uuid  {}", Dashed(&header.chunk_tree_uuid))?;
        writeln!(f, "  generation       {}", header.generation)?;
        writeln!(f, "  owner            {}", header.owner)?;
        writeln!(f, "  nritems          {}", header.nritems)?;
        writeln!(f, "  level            {}", header.level)?;
        match records {
            Records::Items(items) => {
                writeln!(f, "\nitems: key, data in the block")?;
                for (slot, item) in items.iter().enumerate() {
                    let end = item.start.saturating_add(item.size.into());
                    writeln!(f, "  {slot:4}  {}  {}..{end}", item.key, item.start)?;
                }
            }
            Records::Pointers(pointers) => {
                writeln!(f, "\npointers: key, block, generation")?;
                for (slot, (key, bytenr, generation)) in pointers.iter().enumerate() {
                    writeln!(f, "  {slot:4}  {key}  {bytenr}  {generation}")?;
                }
            }
        }
        writeln!(f, "\nbytes")?;
        hex_dump(f, bytes)
    }
}

/// Rows of sixteen bytes; equal rows after the first are one star.
fn hex_dump(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    const ROW: usize = 16;
    let mut before: Option<&[u8]> = None;
    let mut starred = false;
    for (index, row) in bytes.chunks(ROW).enumerate() {
        if before == Some(row) {
            if !starred {
                writeln!(f, "  *")?;
            }
            starred = true;
            continue;
        }
        (before, starred) = (Some(row), false);
        let mut text = String::with_capacity(ROW * 4);
        for byte in row {
            write!(text, "{byte:02x} ")?;
        }
        let shown = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        };
        let ascii: String = row.iter().map(shown).collect();
        writeln!(f, "  {:05x}  {text} {ascii}", index * ROW)?;
    }
    writeln!(f, "  {:05x}", bytes.len())
}

/// A tree as the table has it: what it is called, or its id.
fn tree_name(tree: &Tree) -> String {
    let Tree {
        objectid, offset, ..
    } = tree;
    match tree.name() {
        Some(name @ ("log" | "reloc")) if *offset != 0 => format!("{name} of {offset}"),
        Some("log") => "log root".to_owned(),
        Some(name) => name.to_owned(),
        None => format!("subvolume {objectid}"),
    }
}

fn exit_code(sound: bool) -> ExitCode {
    if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn parse_bytenr(text: &str) -> Result<u64, std::num::ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

/// A count of blocks, where somebody watches.
fn progress_bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {pos} tree blocks, {elapsed}");
    let bar = ProgressBar::new_spinner()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
