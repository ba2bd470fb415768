//! What is seen of a command while it works: a bar, lines of figures, and
//! whether it is to end.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use extentwise_files::Gauge;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use crate::interrupt::Interrupt;
use crate::report::{duration, grouped};

/// Whether there is a line of figures each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figures {
    Hidden,
    Shown,
}

impl Figures {
    /// As an option of the command line says.
    pub(crate) fn when(asked: bool) -> Self {
        if asked { Self::Shown } else { Self::Hidden }
    }
}

/// How a cache stands, and how long its writes took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) gauge: Gauge,
    /// The time that 99 of 100 did not exceed.
    pub(crate) p99_nanos: u64,
}

/// Tells on standard error how far a command is.
pub(crate) struct Watch {
    bar: ProgressBar,
    interrupt: Interrupt,
    figures: Figures,
    started: Instant,
    /// When the next line of figures is due.
    due: Instant,
}

const SECOND: Duration = Duration::from_secs(1);

impl Watch {
    /// Shows a bar of this length where somebody watches, in the words of
    /// `template`.
    pub(crate) fn new(len: u64, template: &str, figures: Figures, interrupt: Interrupt) -> Self {
        let started = Instant::now();
        Self {
            bar: bar(len, template),
            interrupt,
            figures,
            started,
            due: started + SECOND,
        }
    }

    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The work is at `position`; `look` is asked if a line of figures is due.
    pub(crate) fn at(&mut self, position: u64, look: impl FnOnce() -> Standing) {
        self.bar.set_position(position);
        if self.figures == Figures::Shown && Instant::now() >= self.due {
            let line = line(self.started.elapsed(), look());
            self.due = Instant::now() + SECOND;
            self.bar.suspend(|| eprintln!("{line}"));
        }
    }

    /// The work is at its end but for `what`.
    pub(crate) fn ends_with(&self, what: &'static str) {
        if let Some(len) = self.bar.length() {
            self.bar.set_position(len);
        }
        self.bar.set_message(what);
    }

    /// Takes the bar away.
    pub(crate) fn close(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar where somebody watches.
fn bar(len: u64, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(len)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_finish(ProgressFinish::AndClear)
}

fn line(elapsed: Duration, standing: Standing) -> String {
    let gauge = standing.gauge;
    format!(
        "{:>4} s  dirty {}  in writeback {}  device writes {} ({} bytes)  p99 {}",
        elapsed.as_secs(),
        grouped(gauge.dirty_bytes),
        grouped(gauge.writeback_bytes),
        grouped(gauge.device_writes),
        grouped(gauge.device_bytes),
        duration(standing.p99_nanos),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_figures_names_each() {
        let gauge = Gauge {
            dirty_bytes: 1_048_576,
            writeback_bytes: 4096,
            device_writes: 17,
            device_bytes: 69_632,
        };
        let standing = Standing {
            gauge,
            p99_nanos: 1_500_000,
        };
        assert_eq!(
            line(Duration::from_millis(3_900), standing),
            "   3 s  dirty 1,048,576  in writeback 4,096  device writes 17 (69,632 bytes)  p99 1.5 ms"
        );
    }
}
