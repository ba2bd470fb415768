//! A replay by one thread, which writes back too.

use anyhow::Result;
use extentwise_files::{Files, Rings};

use super::course::Course;
use super::report::Work;
use super::session::Session;
use super::settings::Writers;
use super::{Outcome, Plan, interrupted_at};

/// Replays the whole trace.
pub(crate) fn replay(plan: Plan<'_>) -> Result<Outcome> {
    let Plan {
        trace,
        paths,
        settings,
        events,
        mut watch,
    } = plan;
    let block_size = settings.geometry.block_size();
    let files = Files::new(paths, settings.device.into(), Rings::OfDriver, block_size)?;
    let cache = extentwise_files::alone(settings.config(Writers::One)?, files)?;
    let mut session = Session::new(paths, cache, events);
    let mut course = Course::new(paths.len(), settings);
    let mut records = trace.records()?;
    while let Some(record) = records.next() {
        let numbered = course.follow(record?);
        if watch.interrupt().is_pending() {
            return Err(interrupted_at(numbered.record.line).into());
        }
        session.apply(numbered)?;
        watch.at(records.bytes_read(), || session.standing());
    }
    watch.ends_with("syncing and verifying");
    let done = session.finish(0..paths.len())?;
    let (counts, gauge) = (done.cache.counts(), done.cache.gauge());
    let least = course.into_least_device_writes();
    Ok(Outcome {
        actions: done.actions,
        work: Work::of(&counts, gauge, least, done.writeback),
        models: done.models,
        watch,
    })
}
