//! What a copy did: for people, and as JSON.

// Rates are shown rounded.
#![allow(clippy::cast_precision_loss)]

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use extentwise_files::Gauge;
use serde::Serialize;

use crate::report::{count, duration, grouped, row};

/// A copy that is in its place.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) source: PathBuf,
    pub(crate) destination: PathBuf,
    pub(crate) size: u64,
    /// Without holes.
    pub(crate) copied_bytes: u64,
    pub(crate) gauge: Gauge,
    pub(crate) synced: bool,
    pub(crate) checked: bool,
    pub(crate) elapsed: Duration,
}

#[derive(Serialize)]
struct JsonReport {
    source: String,
    destination: String,
    size: u64,
    copied_bytes: u64,
    hole_bytes: u64,
    device_writes: u64,
    device_bytes: u64,
    synced: bool,
    checked: bool,
    nanos: u64,
}

impl Report {
    /// One JSON object.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&JsonReport {
            source: self.source.display().to_string(),
            destination: self.destination.display().to_string(),
            size: self.size,
            copied_bytes: self.copied_bytes,
            hole_bytes: self.hole_bytes(),
            device_writes: self.gauge.device_writes,
            device_bytes: self.gauge.device_bytes,
            synced: self.synced,
            checked: self.checked,
            nanos: self.nanos(),
        })
    }

    fn hole_bytes(&self) -> u64 {
        self.size.saturating_sub(self.copied_bytes)
    }

    fn nanos(&self) -> u64 {
        u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: f64 = (1 << 20) as f64;
        let rate = self.copied_bytes as f64 / MIB / self.elapsed.as_secs_f64().max(1e-9);
        row(
            f,
            "copied",
            &format!(
                "{} bytes and {} in holes, in {} ({rate:.0} MiB/s)",
                grouped(self.copied_bytes),
                grouped(self.hole_bytes()),
                duration(self.nanos()),
            ),
        )?;
        row(
            f,
            "device",
            &format!(
                "{}, {} bytes",
                count(self.gauge.device_writes, "write"),
                grouped(self.gauge.device_bytes)
            ),
        )?;
        let promise = match (self.synced, self.checked) {
            (true, true) => "durable, and compared with the source",
            (true, false) => "durable",
            (false, true) => "compared with the source",
            (false, false) => "whole",
        };
        let path = self.destination.display();
        row(
            f,
            "file",
            &format!("{path}, {} bytes, {promise}", grouped(self.size)),
        )
    }
}
