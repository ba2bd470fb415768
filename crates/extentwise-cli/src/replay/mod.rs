//! `extentwise replay`.
/// Replays a log.
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {}
/// Runs the subcommand.
pub fn run(_args: &ReplayArgs) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("not here yet")
}
