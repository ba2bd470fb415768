//! `extentwise explain`.
/// Explains scenarios.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {}
/// Runs the subcommand.
pub fn run(_args: &ExplainArgs) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("not here yet")
}
