//! Shows the case in an artifact.

use std::process::ExitCode;

use super::targets;
use crate::Usage;
use crate::workspace::Workspace;

/// `repro ARTIFACT [--target T]`: the case as a scenario or a list of operations, a test that
/// holds it, and whether it fails now (then the exit code is 1).
pub(super) fn run(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    let (artifact, target) = match options {
        [artifact] => (artifact, None),
        [artifact, option, target] if option == "--target" => (artifact, Some(target.as_str())),
        _ => return Err(Usage("`fuzz repro` takes ARTIFACT [--target T]".into())),
    };
    // Artifacts and corpora lie in folders named after their targets.
    let path = std::path::absolute(artifact)
        .map_err(|error| Usage(format!("artifact {artifact}: {error}")))?;
    let folder = path.parent().and_then(|folder| folder.file_name());
    let folder = folder.map(|name| name.to_string_lossy().into_owned());
    let name = target.map(str::to_owned).or(folder).unwrap_or_default();
    let target = targets::named(&name)
        .map_err(|reason| Usage(format!("{reason}; name it with --target")))?;
    let path = path.display().to_string();
    let mut command = workspace.cargo(&["run", "--quiet", "-p", "extentwise-testkit"]);
    command.args(["--features", "btrfs,iolog", "--example", "describe", "--"]);
    command.args([target.name, &path]);
    let status = command
        .status()
        .map_err(|error| Usage(format!("cargo did not start: {error}")))?;
    Ok(ExitCode::from(u8::from(!status.success())))
}
