//! Files of a trace, being replayed by one thread: its actions, done by the
//! cache and checked against the models.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use extentwise_files::{Cache, Times};

use crate::iolog::{Action, FileId, Span};
use crate::timed::TimedCache;
use crate::watch::Standing;

use super::course::Numbered;
use super::engine;
use super::events::Events;
use super::model::Model;
use super::report::Actions;
use super::verify::check;

/// The files of a trace, as far as it was replayed; or some of them, where
/// others are replayed by other threads.
pub(crate) struct Session<'a> {
    paths: &'a [PathBuf],
    models: Vec<Model>,
    cache: TimedCache,
    actions: Actions,
    events: Events,
}

/// What a session did.
pub(crate) struct Done {
    pub(crate) models: Vec<Model>,
    pub(crate) actions: Actions,
    /// Times of the actions that wrote back.
    pub(crate) writeback: Times,
    pub(crate) cache: Box<dyn Cache>,
}

impl<'a> Session<'a> {
    /// Starts with the empty files at `paths`.
    pub(crate) fn new(paths: &'a [PathBuf], cache: Box<dyn Cache>, events: Events) -> Self {
        Self {
            models: paths.iter().map(|_| Model::default()).collect(),
            cache: TimedCache::new(cache),
            paths,
            actions: Actions::default(),
            events,
        }
    }

    /// Does what one line of the trace says.
    pub(crate) fn apply(&mut self, numbered: Numbered) -> Result<()> {
        self.apply_action(numbered)
            .with_context(|| format!("line {}", numbered.record.line))
    }

    /// How the cache stands.
    pub(crate) fn standing(&self) -> Standing {
        self.cache.standing()
    }

    /// Writes these files back.
    pub(crate) fn finish(mut self, files: impl Iterator<Item = usize>) -> Result<Done> {
        for file in files {
            let synced = self.cache.call(file, |cache| cache.sync(file));
            synced.context("the sync at the end")?;
        }
        let (cache, writeback) = self.cache.into_parts();
        Ok(Done {
            models: self.models,
            actions: self.actions,
            writeback,
            cache,
        })
    }

    fn apply_action(&mut self, numbered: Numbered) -> Result<()> {
        match numbered.record.action {
            Action::Add(id) | Action::Open(id) | Action::Close(id) => {
                self.file(id)?;
            }
            Action::Read(id, span) => self.read(id, span)?,
            Action::Write(id, span) => self.write(id, span, numbered.writes)?,
            Action::Trim(id, span) => self.trim(id, span)?,
            Action::Sync(id) | Action::Datasync(id) => {
                self.actions.syncs += 1;
                let (file, path) = self.file(id)?;
                self.cache.call(file, |cache| cache.sync(file))?;
                let line = numbered.record.line;
                self.events.synced(path, line, numbered.writes)?;
            }
            Action::Wait => {}
        }
        Ok(())
    }

    fn read(&mut self, id: FileId, span: Span) -> Result<()> {
        let (file, path) = self.file(id)?;
        let model = &self.models[file];
        let range = model.clip(span.offset()..span.end());
        self.actions.reads += 1;
        self.actions.read_bytes += range.end - range.start;
        engine::read(&mut self.cache, file, range, |bytes, offset| {
            check(path, model.mismatch(bytes, offset)).context("a read of the trace is wrong")
        })
    }

    fn write(&mut self, id: FileId, span: Span, number: u64) -> Result<()> {
        let (file, _) = self.file(id)?;
        let range = span.offset()..span.end();
        self.actions.writes += 1;
        self.actions.written_bytes += span.len();
        engine::write(&mut self.cache, file, range.clone(), number)?;
        self.models[file].write(range, number);
        Ok(())
    }

    fn trim(&mut self, id: FileId, span: Span) -> Result<()> {
        let (file, _) = self.file(id)?;
        let range = self.models[file].clip(span.offset()..span.end());
        self.actions.trims += 1;
        let punched = range.clone();
        self.cache.call(file, |cache| cache.punch(file, punched))?;
        self.models[file].trim(range);
        Ok(())
    }

    /// The place of a file, which the first reading of the trace made known.
    fn file(&self, id: FileId) -> Result<(usize, &'a Path)> {
        match self.paths.get(id.index()) {
            Some(path) => Ok((id.index(), path)),
            None => bail!("the trace changed while it was replayed"),
        }
    }
}
