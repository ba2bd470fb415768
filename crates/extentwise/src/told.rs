//! What the threads of a cache do, told to `tracing` and to `metrics` where these
//! features are chosen; else nothing.

use std::time::Duration;

use extentwise_device::DeviceError;
use extentwise_engine::{Effect, FileId, FileRange, Loss};

/// A transfer, flush or record that was begun.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(any(feature = "tracing", feature = "metrics")),
    allow(dead_code, reason = "only these features look at it")
)]
pub(crate) struct Told {
    what: &'static str,
    file: FileId,
    bytes: u64,
    began: Duration,
}

impl Told {
    /// `None`: nothing that takes time.
    pub(crate) const fn of(effect: &Effect, began: Duration) -> Option<Self> {
        let (what, file, bytes) = match effect {
            Effect::Read { file, len, .. } => ("read", *file, len.get()),
            Effect::Write { file, len, .. } => ("write", *file, len.get()),
            Effect::Flush { file, .. } => ("flush", *file, 0),
            Effect::Persist { file, .. } => ("persist", *file, 0),
            Effect::SyncEnded { .. } | Effect::Wake | Effect::Lost { .. } => return None,
        };
        Some(Self {
            what,
            file,
            bytes,
            began,
        })
    }

    /// It ended.
    #[cfg_attr(
        not(any(feature = "tracing", feature = "metrics")),
        allow(
            unused_variables,
            clippy::unused_self,
            reason = "only these features look at it"
        )
    )]
    pub(crate) fn ended(self, result: Result<(), DeviceError>, now: Duration) {
        #[cfg(feature = "tracing")]
        {
            let (what, file, bytes) = (self.what, self.file.0, self.bytes);
            let took = now.saturating_sub(self.began);
            match result {
                Ok(()) => tracing::trace!(file, bytes, ?took, "{what}"),
                Err(error) => tracing::warn!(file, bytes, ?took, %error, "{what} failed"),
            }
        }
        #[cfg(feature = "metrics")]
        {
            let what = self.what;
            metrics::counter!("extentwise_transfers", "kind" => what).increment(1);
            metrics::counter!("extentwise_transferred_bytes", "kind" => what).increment(self.bytes);
            metrics::histogram!("extentwise_transfer_seconds", "kind" => what)
                .record(now.saturating_sub(self.began));
            if let Err(error) = result {
                let class = error.class().to_string();
                metrics::counter!("extentwise_failures", "kind" => what, "class" => class)
                    .increment(1);
            }
        }
    }
}

/// Data was lost.
#[cfg_attr(
    not(any(feature = "tracing", feature = "metrics")),
    allow(unused_variables, reason = "only these features look at it")
)]
pub(crate) fn lost(file: FileId, range: FileRange, why: Loss) {
    #[cfg(feature = "tracing")]
    tracing::warn!(file = file.0, %range, %why, "data is lost");
    #[cfg(feature = "metrics")]
    metrics::counter!("extentwise_lost_bytes").increment(range.len().get());
}
