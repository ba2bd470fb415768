//! A replay under way: the trace's actions, done by the engine and checked
//! against the models.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::iolog::{Action, FileId, Record, Span};

use super::engine::Engine;
use super::model::Model;
use super::report::{Actions, ReplayedFile, Report};
use super::settings::Settings;
use super::verify::{self, check};

/// The files of a trace, as far as it was replayed.
pub(crate) struct Session {
    paths: Vec<PathBuf>,
    models: Vec<Model>,
    engine: Engine,
    actions: Actions,
}

impl Session {
    /// Starts with the empty files at `paths`.
    pub(crate) fn new(paths: Vec<PathBuf>, settings: &Settings) -> Result<Self> {
        Ok(Self {
            models: paths.iter().map(|_| Model::default()).collect(),
            engine: Engine::new(&paths, settings)?,
            paths,
            actions: Actions::default(),
        })
    }

    /// Does what one line of the trace says.
    pub(crate) fn apply(&mut self, record: Record) -> Result<()> {
        self.apply_action(record.action)
            .with_context(|| format!("line {}", record.line))
    }

    /// Writes everything back, drops the cache, and compares every byte of
    /// every file through plain reads.
    pub(crate) fn finish(mut self) -> Result<Report> {
        for file in 0..self.paths.len() {
            self.engine.sync(file).context("the sync at the end")?;
        }
        let work = self.engine.into_work();
        let mut verified_bytes = 0;
        for (path, model) in self.paths.iter().zip(&self.models) {
            verified_bytes += verify::verify(path, model).context("verification failed")?;
        }
        let files = self.paths.into_iter().zip(&self.models);
        Ok(Report {
            actions: self.actions,
            work,
            files: files
                .map(|(path, model)| ReplayedFile {
                    path,
                    size: model.len(),
                })
                .collect(),
            verified_bytes,
        })
    }

    fn apply_action(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Add(id) | Action::Open(id) | Action::Close(id) => {
                self.file(id)?;
            }
            Action::Read(id, span) => self.read(id, span)?,
            Action::Write(id, span) => self.write(id, span)?,
            Action::Trim(id, span) => self.trim(id, span)?,
            Action::Sync(id) | Action::Datasync(id) => {
                self.actions.syncs += 1;
                let file = self.file(id)?;
                self.engine.sync(file)?;
            }
            Action::Wait => {}
        }
        Ok(())
    }

    fn read(&mut self, id: FileId, span: Span) -> Result<()> {
        let file = self.file(id)?;
        let (path, model) = (&self.paths[file], &self.models[file]);
        let range = model.clip(span.offset()..span.end());
        self.actions.reads += 1;
        self.actions.read_bytes += range.end - range.start;
        self.engine.read(file, range, |bytes, offset| {
            check(path, model.mismatch(bytes, offset)).context("a read of the trace is wrong")
        })
    }

    fn write(&mut self, id: FileId, span: Span) -> Result<()> {
        let file = self.file(id)?;
        let range = span.offset()..span.end();
        self.actions.writes += 1;
        self.actions.written_bytes += span.len();
        let number = self.actions.writes;
        self.engine.write(file, range.clone(), number)?;
        self.models[file].write(range, number);
        Ok(())
    }

    fn trim(&mut self, id: FileId, span: Span) -> Result<()> {
        let file = self.file(id)?;
        let range = self.models[file].clip(span.offset()..span.end());
        self.actions.trims += 1;
        self.engine.trim(file, range.clone())?;
        self.models[file].trim(range);
        Ok(())
    }

    /// The index of a file, which the first reading of the trace made known.
    fn file(&self, id: FileId) -> Result<usize> {
        if id.index() >= self.paths.len() {
            bail!("the trace changed while it was replayed");
        }
        Ok(id.index())
    }
}
