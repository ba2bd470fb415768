//! Being asked to end before the work is done.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// The exit code of a command that was interrupted, as shells have it: 128 and
/// the number of the signal.
pub(crate) const EXIT_CODE: u8 = 130;

/// Whether somebody pressed Ctrl-C. The second time ends the process at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from here on.
    pub(crate) fn listen() -> Result<Self> {
        let pending = Arc::new(AtomicBool::new(false));
        // In this order: the first of two signals must not find its own mark.
        flag::register_conditional_default(SIGINT, Arc::clone(&pending))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&pending)))
            .context("listening to SIGINT")?;
        Ok(Self(pending))
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The error of a command that was interrupted: what is not finished.
#[derive(Debug)]
pub(crate) struct Interrupted(pub(crate) String);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted: {}", self.0)
    }
}

impl std::error::Error for Interrupted {}
