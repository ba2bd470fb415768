//! Benchmarks that judge themselves: each compares two ways in one run and exits non-zero
//! when the ratio passes its limit, because times alone mean nothing on a busy machine.

use std::process::ExitCode;

use crate::Usage;
use crate::report::Report;
use crate::workspace::Workspace;

/// A `[[bench]]` with a `main` of its own.
struct Bench {
    name: &'static str,
    package: &'static str,
    /// What cargo is told beside these.
    options: &'static [&'static str],
}

static BENCHES: &[Bench] = &[
    Bench {
        name: "decide",
        package: "extentwise-core",
        options: &["--features", "alloc"],
    },
    Bench {
        name: "extent-buffer",
        package: "extentwise-memory",
        options: &[],
    },
    Bench {
        name: "index",
        package: "extentwise-engine",
        options: &[],
    },
];

/// Runs one benchmark, or all of them.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    let mut report = Report::default();
    for bench in chosen(options)? {
        let words = ["bench", "-p", bench.package, "--bench", bench.name];
        report.run(&mut workspace.cargo(&[&words, bench.options].concat()));
    }
    Ok(ExitCode::from(u8::from(!report.passed())))
}

fn chosen(options: &[String]) -> Result<&'static [Bench], Usage> {
    let known = || {
        let names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        names.join(", ")
    };
    match options {
        [] => Ok(BENCHES),
        [option] if option == "--only" => Err(Usage(format!("--only needs one of: {}", known()))),
        [option, name] if option == "--only" => BENCHES
            .iter()
            .position(|bench| bench.name == name)
            .map(|at| &BENCHES[at..=at])
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
            let benches = chosen(&words).ok()?;
            Some(benches.iter().map(|bench| bench.name).collect::<Vec<_>>())
        };
        assert_eq!(choose(&[]), Some(vec!["decide", "extent-buffer", "index"]));
        assert_eq!(choose(&["--only", "decide"]), Some(vec!["decide"]));
        assert_eq!(choose(&["--only"]), None);
        assert_eq!(choose(&["--only", "encode"]), None);
        assert_eq!(choose(&["--only", "decide", "decide"]), None);
    }
}
