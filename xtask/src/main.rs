//! The chores of the workspace, one verb each: `cargo xtask help`.
//!
//! Standard library only, so that a check can never be broken by a dependency it checks.

mod bench;
mod coverage;
mod documented;
mod elf;
mod fuzz;
mod lint;
mod loom;
mod memcheck;
mod no_std;
mod report;
mod search;
mod seeded;
mod shuttle;
mod simulate;
mod soak;
mod source;
mod table;
mod test;
mod verify;
mod workspace;

use std::process::ExitCode;

use report::Report;
use verify::Step;
use workspace::{Effort, Workspace};

/// One word on the command line.
struct Verb {
    name: &'static str,
    options: &'static str,
    help: &'static str,
    action: Action,
}

/// What a verb does.
enum Action {
    /// Checks something; `verify` runs every one of these, in the order of the table.
    Check(fn(&Workspace, Effort) -> Report),
    /// A check of `verify` that takes options of its own when it is called by its name.
    CheckOrRun(
        fn(&Workspace, Effort) -> Report,
        fn(&Workspace, &[String]) -> Result<ExitCode, Usage>,
    ),
    /// Takes options of its own.
    Run(fn(&Workspace, &[String]) -> Result<ExitCode, Usage>),
}

/// A command line that cannot be obeyed, and why.
struct Usage(String);

static VERBS: &[Verb] = &[
    Verb {
        name: "lint",
        options: "",
        help: "formatting, clippy, documentation links, file lengths, no unsafe code",
        action: Action::Check(lint::run),
    },
    Verb {
        name: "test",
        options: "",
        help: "all tests, and the core's tests once more without `alloc`",
        action: Action::Check(test::run),
    },
    Verb {
        name: "no-std",
        options: "",
        help: "core, device, engine, thin store against sysroots without std; linked without an OS",
        action: Action::Check(no_std::run),
    },
    Verb {
        name: "loom",
        options: "[--model NAME]",
        help: "threads over the core's shared objects, in every order, and seeded twins",
        action: Action::CheckOrRun(loom::check, loom::run),
    },
    Verb {
        name: "shuttle",
        options: "[--scene NAME] [--seed S]",
        help: "threads over one cache, in ten thousand orders, and seeded mistakes",
        action: Action::CheckOrRun(shuttle::check, shuttle::run),
    },
    Verb {
        name: "mutants",
        options: "[--seeded [--bug NAME]]",
        help: "mistakes after public reports, put in one at a time, that tests must catch",
        action: Action::CheckOrRun(seeded::check, seeded::run),
    },
    Verb {
        name: "simulate",
        options: "[--KIND [--seed S] [--count N] | --table]",
        help: "the page cache on simulated devices that fail and lose power",
        action: Action::CheckOrRun(simulate::check, simulate::run),
    },
    Verb {
        name: "search",
        options: "",
        help: "every state of small files over the real core, in every order of events",
        action: Action::Check(search::check),
    },
    Verb {
        name: "soak",
        options: "[--time S | --seed N]",
        help: "threads on devices that fail, for --time seconds; 8 GiB through 64 MiB",
        action: Action::CheckOrRun(soak::check, soak::run),
    },
    Verb {
        name: "fuzz",
        options: "[--target T] [--time S] [--jobs N] [--asan] | repro FILE | cmin | coverage",
        help: "random cases against models, for --time seconds a target; see docs/fuzzing.md",
        action: Action::CheckOrRun(fuzz::check, fuzz::run),
    },
    Verb {
        name: "coverage",
        options: "",
        help: "the lines of the core that its tests run, and those that they miss",
        action: Action::Check(coverage::check),
    },
    Verb {
        name: "memcheck",
        options: "",
        help: "the tests of the crate with raw memory under valgrind and AddressSanitizer",
        action: Action::Check(memcheck::run),
    },
    Verb {
        name: "bench",
        options: "[--quick] [--json FILE] [--only NAME] [--record]",
        help: "rows against what else one could use, which fail below their goals",
        action: Action::CheckOrRun(bench::check, bench::run),
    },
    Verb {
        name: "verify",
        options: "[--ci]",
        help: "every check, with a table of counts and floors",
        action: Action::Run(verify_all),
    },
    Verb {
        name: "help",
        options: "",
        help: "this list",
        action: Action::Run(help),
    },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    obey(&words).unwrap_or_else(|Usage(reason)| {
        eprintln!("error: {reason}\n\n{}", verb_list());
        ExitCode::from(2)
    })
}

fn obey(words: &[String]) -> Result<ExitCode, Usage> {
    let (name, options) = words
        .split_first()
        .ok_or_else(|| Usage("a verb is needed".into()))?;
    let verb = VERBS
        .iter()
        .find(|verb| verb.name == name)
        .ok_or_else(|| Usage(format!("no verb is called `{name}`")))?;
    let workspace = Workspace::locate();
    match verb.action {
        Action::Check(check) => {
            refuse_options(options)?;
            let name = verb.name;
            Ok(verify::run_steps(
                &workspace,
                Effort::Local,
                &[Step { name, check }],
            ))
        }
        Action::CheckOrRun(_, run) | Action::Run(run) => run(&workspace, options),
    }
}

fn verify_all(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    let (effort, rest) = match options.split_first() {
        Some((first, rest)) if first == "--ci" => (Effort::Ci, rest),
        _ => (Effort::Local, options),
    };
    refuse_options(rest)?;
    let steps: Vec<Step> = VERBS
        .iter()
        .filter_map(|verb| match verb.action {
            Action::Check(check) | Action::CheckOrRun(check, _) => Some(Step {
                name: verb.name,
                check,
            }),
            Action::Run(_) => None,
        })
        .collect();
    Ok(verify::run_steps(workspace, effort, &steps))
}

fn help(_: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    refuse_options(options)?;
    println!("{}", verb_list());
    Ok(ExitCode::SUCCESS)
}

fn refuse_options(options: &[String]) -> Result<(), Usage> {
    match options.first() {
        None => Ok(()),
        Some(option) => Err(Usage(format!("`{option}` is not an option of this verb"))),
    }
}

fn verb_list() -> String {
    let lines = VERBS.iter().map(|verb| {
        let call = format!("{} {}", verb.name, verb.options);
        format!("\n  {call:<32} {}", verb.help)
    });
    std::iter::once("usage: cargo xtask VERB [OPTIONS]\n".into())
        .chain(lines)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        obey(&words).map_or_else(|Usage(reason)| reason, |_| "obeyed".into())
    }

    #[test]
    fn unknown_verbs_and_options_are_named_in_the_refusal() {
        assert_eq!(refusal(&[]), "a verb is needed");
        assert_eq!(refusal(&["lnit"]), "no verb is called `lnit`");
        assert!(refusal(&["lint", "--fast"]).contains("`--fast`"));
        assert!(refusal(&["verify", "--cl"]).contains("`--cl`"));
        assert!(refusal(&["verify", "--ci", "more"]).contains("`more`"));
        assert!(refusal(&["loom", "--model", "x"]).contains("split_against_finish"));
        assert!(refusal(&["help", "lint"]).contains("`lint`"));
    }

    #[test]
    fn help_names_every_verb() {
        let list = verb_list();
        assert!(VERBS.iter().all(|verb| list.contains(verb.name)));
    }
}
