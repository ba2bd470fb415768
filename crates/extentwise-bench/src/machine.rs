//! What machine this is, as far as it says so.

use std::fmt;
use std::fs;
use std::process::Command;
use std::thread;

use serde::Serialize;

/// What a reader needs to know of the machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
    pub(crate) version: &'static str,
    /// Processes that wanted to run in the last minute, and in the last five.
    pub(crate) load: String,
    pub(crate) date: String,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':'))
                .map_or_else(|| "unknown".into(), |(_, value)| value.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let memory_kib = memory.split(' ').next().and_then(|kib| kib.parse().ok());
        let load = read("/proc/loadavg");
        let load: Vec<&str> = load.split(' ').take(2).collect();
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory_kib.unwrap_or(0_u64) / 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            rustc: said("rustc", &["--version"]),
            version: env!("CARGO_PKG_VERSION"),
            load: load.join(", "),
            date: said("date", &["-u", "+%F %H:%M UTC"]),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} cores, {} MiB, Linux {}\n{}, extentwise {}, {}, load {}",
            self.cpu,
            self.cores,
            self.memory_mib,
            self.kernel,
            self.rustc,
            self.version,
            self.date,
            self.load
        )
    }
}

/// The first line that a program prints, or that it is not there.
fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.ok()
        .and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_else(|| format!("{program}: unknown"))
}
