//! What is known of an action before it is done: from the trace alone.

use crate::iolog::{Action, FileId, Record};

use super::least::LeastWrites;
use super::settings::Settings;

/// A record of the trace with what the records before it say about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbered {
    pub(crate) record: Record,
    /// Writes of the trace so far, this one included: the number of a write.
    pub(crate) writes: u64,
}

/// Follows a trace, record after record.
pub(crate) struct Course {
    writes: u64,
    /// Sizes of the files.
    sizes: Vec<u64>,
    least: LeastWrites,
}

impl Course {
    /// The start of a trace of this many files.
    pub(crate) fn new(files: usize, settings: &Settings) -> Self {
        Self {
            writes: 0,
            sizes: vec![0; files],
            least: LeastWrites::new(settings),
        }
    }

    /// The next record.
    pub(crate) fn follow(&mut self, record: Record) -> Numbered {
        match record.action {
            Action::Write(id, span) => {
                self.writes += 1;
                self.least.write(id.index(), span.offset()..span.end());
                if let Some(size) = self.sizes.get_mut(id.index())
                    && !span.is_empty()
                {
                    *size = span.end().max(*size);
                }
            }
            Action::Trim(id, span) => {
                let size = self.size(id);
                let range = span.offset().min(size)..span.end().min(size);
                self.least.trim(id.index(), range);
            }
            Action::Sync(id) | Action::Datasync(id) => self.least.sync(id.index()),
            _ => {}
        }
        Numbered {
            record,
            writes: self.writes,
        }
    }

    /// The fewest device writes for all of it, with a sync of each file at the
    /// end.
    pub(crate) fn into_least_device_writes(mut self) -> u64 {
        for file in 0..self.sizes.len() {
            self.least.sync(file);
        }
        self.least.count()
    }

    fn size(&self, id: FileId) -> u64 {
        self.sizes.get(id.index()).copied().unwrap_or_default()
    }
}
