//! Exploring models and judging them and their twins.

use std::panic;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One scene with threads, and what must hold in all its executions.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// The rules that it shows to be kept.
    pub(crate) rules: &'static str,
    /// Executions that it must have at least: close below what there are, so
    /// that a lock that loom no longer sees is noticed.
    pub(crate) floor: usize,
    /// What the rejection of its twin must say. A twin that falls over anything
    /// else was not understood.
    pub(crate) symptom: &'static str,
    pub(crate) scene: fn(Variant),
}

/// How a scene is played.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// As the core means it.
    Core,
    /// With a mistake seeded.
    Twin,
}

/// Executions begun of the scene being explored. Not loom's: it must outlive
/// each of them.
static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);

/// The first panic of the scene being explored. Later ones only follow from it.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// How exploring one variant went.
struct Exploration {
    executions: usize,
    /// Why it stopped before all executions were seen.
    rejection: Option<String>,
}

/// Explores the models whose names are on the command line, or all, and prints
/// a line for each: `model`, name, rules, executions, floor, whether complete,
/// what became of the twin; separated by tabs.
pub(crate) fn run(models: &[Model]) -> ExitCode {
    // Rejected twins are what is hoped for: no trace of theirs on the screen.
    panic::set_hook(Box::new(|info| {
        if let Ok(mut first) = PANIC.lock() {
            first.get_or_insert_with(|| info.to_string());
        }
    }));

    let names: Vec<String> = std::env::args().skip(1).collect();
    let known = |name: &String| models.iter().any(|model| model.name == name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        eprintln!("no model is called `{name}`");
        return ExitCode::from(2);
    }

    let mut failed = 0;
    for model in models {
        if names.is_empty() || names.iter().any(|name| name == model.name) {
            failed += u8::from(!judge(model));
        }
    }
    ExitCode::from(failed)
}

/// Explores a model and its twin, and prints the line.
fn judge(model: &Model) -> bool {
    let core = explore(model, Variant::Core);
    let twin = explore(model, Variant::Twin);
    let complete = core.rejection.as_deref().map_or_else(
        || "complete".into(),
        |reason| format!("failed in execution {}: {reason}", core.executions),
    );
    let twin_verdict = match twin.rejection {
        None => format!("accepted in all {} executions", twin.executions),
        Some(reason) if reason.contains(model.symptom) => {
            format!("rejected in execution {}", twin.executions)
        }
        Some(reason) => format!("fell over something else: {reason}"),
    };
    println!(
        "model\t{}\t{}\t{}\t{}\t{}\t{}",
        model.name,
        model.rules,
        core.executions,
        model.floor,
        one_line(&complete),
        one_line(&twin_verdict),
    );
    core.executions >= model.floor
        && complete == "complete"
        && twin_verdict.starts_with("rejected in ")
}

fn explore(model: &Model, variant: Variant) -> Exploration {
    EXECUTIONS.store(0, Ordering::Relaxed);
    let scene = model.scene;
    let outcome = panic::catch_unwind(|| {
        limits().check(move || {
            EXECUTIONS.fetch_add(1, Ordering::Relaxed);
            scene(variant);
        });
    });
    let message = PANIC.lock().ok().and_then(|mut first| first.take());
    Exploration {
        executions: EXECUTIONS.load(Ordering::Relaxed),
        rejection: outcome
            .err()
            .map(|_| message.unwrap_or_else(|| "a panic without a message".into())),
    }
}

/// No limit that would end an exploration early and call it done. All are set
/// here, because loom takes what is not set from the environment.
fn limits() -> loom::model::Builder {
    let mut limits = loom::model::Builder::new();
    limits.max_threads = 4;
    // Reached, it is a failure, not an end.
    limits.max_branches = 1_000;
    limits.max_permutations = None;
    limits.max_duration = None;
    limits.preemption_bound = None;
    limits.checkpoint_file = None;
    limits.expect_explicit_explore = false;
    limits.location = false;
    limits.log = false;
    limits
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
