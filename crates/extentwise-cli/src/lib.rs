//! The `extentwise` command.
//!
//! One module a subcommand: [`explain`] shows what the core decides for a
//! scenario, [`replay`] drives a recorded I/O log through the write path onto
//! real files, [`copy`] copies a file through it, [`tree_blocks`] verifies the metadata of a btrfs image. [`iolog`]
//! is the parser of the I/O logs.

pub mod copy;
mod device;
pub mod explain;
mod holes;
mod interrupt;
pub mod iolog;
pub mod replay;
mod report;
mod sizes;
mod timed;
pub mod tree_blocks;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The write path of a page cache, decided extent by extent.
#[derive(Debug, Parser)]
#[command(name = "extentwise", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Explain(explain::ExplainArgs),
    Copy(copy::CopyArgs),
    Replay(replay::ReplayArgs),
    TreeBlocks(tree_blocks::TreeBlocksArgs),
}

/// Runs the command line and answers its exit code: 0 all well, 1 the input or
/// the run failed, 2 the command line itself is wrong, 130 it was interrupted.
#[must_use]
pub fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Explain(args) => explain::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::TreeBlocks(args) => tree_blocks::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("extentwise: {error:#}");
        if error.is::<interrupt::Interrupted>() {
            ExitCode::from(interrupt::EXIT_CODE)
        } else {
            ExitCode::FAILURE
        }
    })
}
