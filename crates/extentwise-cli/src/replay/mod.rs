//! `extentwise replay`: a recorded I/O log, driven through the write path onto
//! real files.

// Lengths inside a buffer are differences of 64-bit file offsets, each bounded
// by the buffer's length before it is cast.
#![allow(clippy::cast_possible_truncation)]
// Not called yet: the engine comes on top of these.
#![allow(dead_code)]

mod model;
mod names;
mod pattern;
mod report;
mod sizes;
mod times;
mod verify;

/// Replays an I/O log.
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {}
/// Runs the subcommand.
pub fn run(_args: &ReplayArgs) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("not here yet")
}
