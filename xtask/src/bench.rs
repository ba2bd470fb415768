//! Benchmarks that judge themselves: each compares two ways in one run and exits non-zero
//! when the ratio passes its limit, because times alone mean nothing on a busy machine.

use std::process::ExitCode;

use crate::Usage;
use crate::report::Report;
use crate::workspace::Workspace;

/// Each is a `[[bench]]` of the core with a `main` of its own.
const NAMES: &[&str] = &["decide"];

/// Runs one benchmark, or all of them.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    let mut report = Report::default();
    for name in chosen(options)? {
        report.run(&mut workspace.cargo(&[
            "bench",
            "-p",
            "extentwise-core",
            "--features",
            "alloc",
            "--bench",
            name,
        ]));
    }
    Ok(ExitCode::from(u8::from(!report.passed())))
}

fn chosen(options: &[String]) -> Result<&'static [&'static str], Usage> {
    let known = || NAMES.join(", ");
    match options {
        [] => Ok(NAMES),
        [option] if option == "--only" => Err(Usage(format!("--only needs one of: {}", known()))),
        [option, name] if option == "--only" => NAMES
            .iter()
            .position(|known| known == name)
            .map(|at| &NAMES[at..=at])
            .ok_or_else(|| {
                Usage(format!(
                    "no benchmark is called `{name}`, only: {}",
                    known()
                ))
            }),
        [.., last] => Err(Usage(format!("`{last}` is not understood here"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_benchmarks_are_chosen() {
        let choose = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            chosen(&words).ok()
        };
        assert_eq!(choose(&[]), Some(NAMES));
        assert_eq!(choose(&["--only", "decide"]), Some(&["decide"][..]));
        assert_eq!(choose(&["--only"]), None);
        assert_eq!(choose(&["--only", "encode"]), None);
        assert_eq!(choose(&["--only", "decide", "decide"]), None);
    }
}
