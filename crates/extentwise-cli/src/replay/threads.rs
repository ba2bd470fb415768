//! A replay by many threads, each with files of its own.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Error, Result, anyhow};
use extentwise_files::{Files, Rings, SharedCache};

use crate::interrupt::Interrupt;
use crate::iolog::{Action, FileId};
use crate::watch::{Standing, Watch};

use super::course::{Course, Numbered};
use super::events::Events;
use super::model::Model;
use super::report::{Actions, Work};
use super::session::Session;
use super::settings::Writers;
use super::trace::Trace;
use super::{Outcome, Plan, interrupted_at};

/// Actions that go to a thread at a time, and how often that may be ahead of it.
const BATCH_LEN: usize = 128;
const BATCHES_AHEAD: usize = 4;

/// Replays the whole trace. The files are dealt out to the threads in turn, so
/// the actions on a file keep their order, and every byte is what the trace
/// makes it.
pub(crate) fn replay(plan: Plan<'_>, threads: NonZeroUsize) -> Result<Outcome> {
    let Plan {
        trace,
        paths,
        settings,
        events,
        mut watch,
    } = plan;
    let block_size = settings.geometry.block_size();
    let files = Files::new(paths, settings.device.into(), Rings::OfFiles, block_size)?;
    let cache = SharedCache::new(settings.config(Writers::Threads)?, files)?;
    // More threads than files have nothing to do.
    let count = threads.get().min(paths.len().max(1));
    let mut course = Course::new(paths.len(), settings);
    let crew = Crew {
        cache: &cache,
        paths,
        events,
        count,
        interrupt: watch.interrupt().clone(),
        ended: AtomicBool::new(false),
    };
    let parts = crew.replay(trace, &mut course, &mut watch)?;
    let mut actions = Actions::default();
    let mut models: Vec<Model> = paths.iter().map(|_| Model::default()).collect();
    for (nth, part) in parts.into_iter().enumerate() {
        actions.add(part.actions);
        let own = models.iter_mut().zip(part.models).skip(nth);
        own.step_by(count).for_each(|(model, own)| *model = own);
    }
    let least = course.into_least_device_writes();
    let work = Work::of(&cache.counts(), cache.gauge(), least, cache.write_times());
    Ok(Outcome {
        actions,
        work,
        models,
        watch,
    })
}

/// The threads of a replay, and what they share.
struct Crew<'a> {
    cache: &'a SharedCache,
    paths: &'a [PathBuf],
    events: Events,
    count: usize,
    interrupt: Interrupt,
    /// Somebody failed: the others need not go on.
    ended: AtomicBool,
}

/// What a thread did to its files; the models of others are empty.
struct Part {
    actions: Actions,
    models: Vec<Model>,
}

/// A thread that could not go on, and at which line.
struct Failure {
    line: u64,
    error: Error,
}

impl Crew<'_> {
    fn replay(&self, trace: &Trace, course: &mut Course, watch: &mut Watch) -> Result<Vec<Part>> {
        thread::scope(|scope| {
            let mut workers = Vec::with_capacity(self.count);
            let mut queues = Vec::with_capacity(self.count);
            for nth in 0..self.count {
                let (queue, batches) = sync_channel(BATCHES_AHEAD);
                queues.push(Queue {
                    queue,
                    batch: Vec::with_capacity(BATCH_LEN),
                });
                workers.push(scope.spawn(move || self.work(nth, &batches)));
            }
            let dealt = self.deal(trace, course, watch, queues);
            watch.ends_with("syncing and verifying");
            let mut parts = Vec::with_capacity(self.count);
            let mut first: Option<Failure> = None;
            for worker in workers {
                match joined(worker) {
                    Ok(part) => parts.push(part),
                    Err(failure)
                        if first.as_ref().is_none_or(|first| failure.line < first.line) =>
                    {
                        first = Some(failure);
                    }
                    Err(_) => {}
                }
            }
            dealt?;
            match first {
                Some(failure) => Err(failure.error),
                None => Ok(parts),
            }
        })
    }

    /// Deals the trace out to the threads, up to its end or to a failure.
    fn deal(
        &self,
        trace: &Trace,
        course: &mut Course,
        watch: &mut Watch,
        mut queues: Vec<Queue>,
    ) -> Result<()> {
        let mut records = trace.records()?;
        while let Some(record) = records.next() {
            let numbered = course.follow(record?);
            if self.interrupt.is_pending() {
                return Err(interrupted_at(numbered.record.line).into());
            }
            let nth = file_of(numbered.record.action).map_or(0, FileId::index) % self.count;
            if queues
                .get_mut(nth)
                .is_some_and(|queue| queue.push(numbered).is_err())
            {
                return Ok(());
            }
            watch.at(records.bytes_read(), || Standing {
                gauge: self.cache.gauge(),
                p99_nanos: self.cache.write_times().percentile(99),
            });
        }
        for queue in &mut queues {
            // Whoever is gone says why itself.
            let _ = queue.send();
        }
        Ok(())
    }

    /// What thread `nth` does.
    fn work(&self, nth: usize, batches: &Receiver<Vec<Numbered>>) -> Result<Part, Failure> {
        let mut session = Session::new(self.paths, self.cache.user(), self.events);
        for numbered in batches.iter().flatten() {
            let line = numbered.record.line;
            if self.ended.load(Ordering::Relaxed) || self.interrupt.is_pending() {
                let error = interrupted_at(line).into();
                return Err(Failure {
                    line: u64::MAX,
                    error,
                });
            }
            session.apply(numbered).map_err(|error| {
                self.ended.store(true, Ordering::Relaxed);
                Failure { line, error }
            })?;
        }
        let own = (nth..self.paths.len()).step_by(self.count);
        let done = session.finish(own).map_err(|error| {
            let line = u64::MAX - 1;
            Failure { line, error }
        })?;
        Ok(Part {
            actions: done.actions,
            models: done.models,
        })
    }
}

/// Actions on their way to a thread.
struct Queue {
    queue: SyncSender<Vec<Numbered>>,
    batch: Vec<Numbered>,
}

/// The thread is gone.
struct Gone;

impl Queue {
    fn push(&mut self, numbered: Numbered) -> Result<(), Gone> {
        self.batch.push(numbered);
        if self.batch.len() < BATCH_LEN {
            return Ok(());
        }
        self.send()
    }

    fn send(&mut self) -> Result<(), Gone> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_LEN));
        self.queue.send(batch).map_err(|_| Gone)
    }
}

fn joined(worker: ScopedJoinHandle<'_, Result<Part, Failure>>) -> Result<Part, Failure> {
    worker.join().unwrap_or_else(|_| {
        Err(Failure {
            line: 0,
            error: anyhow!("a thread of the replay panicked"),
        })
    })
}

fn file_of(action: Action) -> Option<FileId> {
    match action {
        Action::Add(id)
        | Action::Open(id)
        | Action::Close(id)
        | Action::Read(id, _)
        | Action::Write(id, _)
        | Action::Trim(id, _)
        | Action::Sync(id)
        | Action::Datasync(id) => Some(id),
        Action::Wait => None,
    }
}
