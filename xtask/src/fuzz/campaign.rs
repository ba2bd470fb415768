//! Runs targets for a while, and says what they did.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::build::{Binaries, Sanitizer};
use super::corpus;
use super::targets::{CANARY, Target};
use crate::report::Report;
use crate::workspace::Workspace;

/// Shorter runs say nothing about speed.
const RATE_TIME_MIN: Duration = Duration::from_secs(5);
const CANARY_TIME: Duration = Duration::from_secs(30);
/// Ticks a second in `/proc/PID/stat`: fixed by the interface of Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a campaign runs.
pub(super) struct Plan {
    pub(super) targets: Vec<&'static Target>,
    /// For each target.
    pub(super) time: Duration,
    /// Processes at a time; a target that is alone gets all of them.
    pub(super) jobs: usize,
    pub(super) sanitizer: Sanitizer,
}

/// What a campaign did, over all its targets.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) targets: u64,
    pub(super) executions: u64,
}

/// Runs the plan and prints a table; crashes and slow targets are faults.
pub(super) fn run(
    workspace: &Workspace,
    binaries: &Binaries,
    plan: &Plan,
    report: &mut Report,
) -> Sums {
    let copies = if plan.targets.len() == 1 {
        plan.jobs
    } else {
        1
    };
    let waiting = plan.targets.iter().flat_map(|t| vec![*t; copies]);
    let waiting: Mutex<Vec<&Target>> = Mutex::new(waiting.rev().collect());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for job in 0..plan.jobs {
            let (waiting, done) = (&waiting, &done);
            scope.spawn(move || {
                while let Some(target) = waiting.lock().ok().and_then(|mut list| list.pop()) {
                    let outcome = run_one(workspace, binaries, target, plan.time, job);
                    if let Ok(mut done) = done.lock() {
                        done.push((target, outcome));
                    }
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_default();
    print_table(&done);

    let mut sums = Sums::default();
    for target in &plan.targets {
        let mut ran = false;
        for (_, outcome) in done.iter().filter(|(of, _)| of.name == target.name) {
            match outcome {
                Ok(outcome) => {
                    ran |= outcome.executions > 0;
                    sums.executions += outcome.executions;
                    judge(target, outcome, plan, report);
                }
                Err(reason) => report.fault(format!("{}: {reason}", target.name)),
            }
        }
        sums.targets += u64::from(ran);
    }
    sums
}

/// Runs the target that must crash.
pub(super) fn expect_canary(workspace: &Workspace, binaries: &Binaries, report: &mut Report) {
    match run_one(workspace, binaries, CANARY, CANARY_TIME, 0) {
        Ok(outcome) if outcome.artifact.is_some() => {
            eprintln!("the canary was caught, as it must be");
        }
        Ok(outcome) => report.fault(format!(
            "the canary was not caught in {} executions: the fuzzer finds nothing",
            outcome.executions
        )),
        Err(reason) => report.fault(format!("canary: {reason}")),
    }
}

/// What one process did.
#[derive(Debug, Default)]
struct Outcome {
    executions: u64,
    edges: u64,
    corpus: u64,
    cpu: Duration,
    artifact: Option<PathBuf>,
    failed: bool,
    log: PathBuf,
}

impl Outcome {
    /// Executions a second of processor time, so that a busy machine changes little.
    fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let executions = self.executions as f64;
        executions / self.cpu.as_secs_f64().max(0.001)
    }
}

fn judge(target: &Target, outcome: &Outcome, plan: &Plan, report: &mut Report) {
    let name = target.name;
    if let Some(artifact) = &outcome.artifact {
        let artifact = artifact.display();
        report.fault(format!(
            "{name} crashed: `cargo xtask fuzz repro {artifact}`"
        ));
    } else if outcome.failed {
        report.fault(format!("{name} failed; see {}", outcome.log.display()));
    }
    let Some(floor) = target.rate_floor else {
        return;
    };
    let judged = plan.time >= RATE_TIME_MIN && plan.sanitizer == Sanitizer::None;
    #[expect(clippy::cast_precision_loss, reason = "floors are small")]
    let slow = outcome.rate() < floor as f64;
    if judged && slow && !outcome.failed {
        report.fault(format!(
            "{name} runs {:.0} cases a second of processor time, {floor} are needed",
            outcome.rate()
        ));
    }
}

fn print_table(done: &[(&Target, Result<Outcome, String>)]) {
    println!(
        "\n{:<22}{:>12}{:>12}{:>8}{:>8}{:>9}",
        "target", "executions", "per CPU s", "edges", "corpus", "crashes"
    );
    for (target, outcome) in done {
        let Ok(outcome) = outcome else { continue };
        println!(
            "{:<22}{:>12}{:>12.0}{:>8}{:>8}{:>9}",
            target.name,
            outcome.executions,
            outcome.rate(),
            outcome.edges,
            outcome.corpus,
            u8::from(outcome.failed)
        );
    }
    println!();
}

fn run_one(
    workspace: &Workspace,
    binaries: &Binaries,
    target: &Target,
    time: Duration,
    job: usize,
) -> Result<Outcome, String> {
    let found = corpus::found(workspace, target);
    let committed = corpus::committed(workspace, target);
    let artifacts = workspace.root().join("fuzz/artifacts").join(target.name);
    let logs = workspace.target("fuzz-logs");
    for folder in [&found, &artifacts, &logs] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let log = logs.join(format!("{}-{job}.log", target.name));
    let log_file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;

    let mut command = binaries.command(target);
    command.arg(&found);
    if committed.is_dir() {
        command.arg(&committed);
    }
    command
        .arg(format!("-max_total_time={}", time.as_secs()))
        .arg(format!("-max_len={}", target.len_max))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-timeout=10", "-rss_limit_mb=2048"])
        .current_dir(workspace.root())
        .stdout(Stdio::null())
        .stderr(log_file);
    let start = Instant::now();
    eprintln!("fuzzing {} for {} s", target.name, time.as_secs());
    let mut child = command
        .spawn()
        .map_err(|error| format!("did not start: {error}"))?;
    let (status, cpu) = watch(&mut child).map_err(|error| error.to_string())?;
    let text = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let mut outcome = read_log(&String::from_utf8_lossy(&text));
    outcome.cpu = cpu.unwrap_or_else(|| start.elapsed());
    outcome.failed = !status.success();
    outcome.log = log;
    Ok(outcome)
}

/// Waits for the child's end; answers the processor time that it had used, where the system
/// says so.
fn watch(child: &mut Child) -> std::io::Result<(ExitStatus, Option<Duration>)> {
    let stat = PathBuf::from(format!("/proc/{}/stat", child.id()));
    let mut cpu = None;
    loop {
        // Read first: once the child was waited for, its figures are gone.
        cpu = cpu_time(&stat).or(cpu);
        if let Some(status) = child.try_wait()? {
            return Ok((status, cpu));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn cpu_time(stat: &Path) -> Option<Duration> {
    let text = fs::read_to_string(stat).ok()?;
    // The name, in parentheses, may hold blanks; user and system time are the 12th and 13th
    // numbers behind it.
    let (_, behind) = text.rsplit_once(')')?;
    let mut numbers = behind.split_whitespace().skip(11);
    let mut ticks = || numbers.next()?.parse::<u32>().ok().map(f64::from);
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_secs_f64(ticks / TICKS_PER_SECOND))
}

/// What libFuzzer wrote.
fn read_log(text: &str) -> Outcome {
    let mut outcome = Outcome::default();
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
            outcome.executions = number.trim().parse().unwrap_or(0);
        }
        if let Some((_, path)) = line.split_once("Test unit written to ") {
            outcome.artifact = Some(path.trim().into());
        }
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            let figure = match word {
                "cov:" => &mut outcome.edges,
                "corp:" => &mut outcome.corpus,
                _ => continue,
            };
            let number = words.next().unwrap_or_default();
            let number = number.split('/').next().unwrap_or_default();
            *figure = number.parse().unwrap_or(*figure);
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_log_are_read() {
        let text = "#2\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                    #9\tNEW    cov: 40 ft: 50 corp: 7/19b lim: 4 exec/s: 0 rss: 30Mb\n\
                    artifact_prefix='a/'; Test unit written to a/crash-77\n\
                    stat::number_of_executed_units: 1234\n";
        let outcome = read_log(text);
        assert_eq!(outcome.executions, 1234);
        assert_eq!((outcome.edges, outcome.corpus), (40, 7));
        assert_eq!(outcome.artifact, Some(PathBuf::from("a/crash-77")));
    }

    #[test]
    fn a_log_of_nothing_is_no_execution() {
        let outcome = read_log("error while loading shared libraries");
        assert_eq!(outcome.executions, 0);
        assert_eq!(outcome.artifact, None);
    }
}
