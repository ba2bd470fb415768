//! That no error is lost, and none is told twice (E1, E2).
//!
//! A failed write is on record when its ordered extent is over, which the
//! outside does not see. Once no write of the file is under way it is; until
//! then a handle may have the error to report or not.

use extentwise_engine::{Effect, ErrorClass, Loss};

use super::setup::{Backing, Trouble};
use super::store::{Store, index};
use super::world::{Check, World};

/// Whether somebody has an error to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owed {
    No,
    Maybe,
    Yes,
}

impl<S: Store> World<'_, '_, S> {
    /// A device write of a file failed.
    pub(super) fn write_failed(&mut self, file: usize) {
        self.files[file].unsettled = true;
    }

    /// A flush or the map of a file failed: that is on record at once.
    pub(super) fn sync_failed(&mut self, file: usize) {
        self.files[file].unseen = Owed::Yes;
        for handle in self.handles.iter_mut().filter(|handle| handle.file == file) {
            handle.owes = Owed::Yes;
        }
    }

    /// If no write of the file is under way, its failures are on record.
    pub(super) fn settle(&mut self, file: usize) {
        let under_way = self.ios.iter().any(|io| io.file == file && io.is_write());
        if !self.files[file].unsettled || under_way {
            return;
        }
        self.files[file].unsettled = false;
        let unseen = if std::mem::take(&mut self.files[file].early) {
            Owed::Maybe
        } else {
            Owed::Yes
        };
        for handle in self.handles.iter_mut().filter(|handle| handle.file == file) {
            let owes = if std::mem::take(&mut handle.early) {
                Owed::Maybe
            } else {
                Owed::Yes
            };
            handle.owes = handle.owes.max(owes);
        }
        self.files[file].unseen = self.files[file].unseen.max(unseen);
    }

    /// What a new handle has to report.
    pub(super) fn owed_at_open(&self, file: usize) -> Owed {
        let file = &self.files[file];
        if file.unsettled {
            file.unseen.max(Owed::Maybe)
        } else {
            file.unseen
        }
    }

    /// The handle `nth` said whether anything failed.
    pub(super) fn reported(&mut self, nth: usize, result: Result<(), ErrorClass>) -> Check {
        let handle = &mut self.handles[nth];
        let file = &mut self.files[handle.file];
        let owed = std::mem::replace(&mut handle.owes, Owed::No);
        let Err(class) = result else {
            if owed == Owed::Yes {
                return Err(format!("file {}: an error is lost (E1)", handle.file));
            }
            return Ok(());
        };
        // Short space comes of its own, and a file may suffer from another's.
        let others = self.setup.backing == Backing::Thin && self.failed_once;
        if owed == Owed::No && !file.unsettled && !others {
            return Err(format!(
                "file {}: {class} is reported again, or did not happen (E1)",
                handle.file
            ));
        }
        handle.early |= file.unsettled;
        file.early |= file.unsettled;
        file.unseen = Owed::No;
        let id = handle.id;
        for sync in self.syncs.iter_mut().filter(|sync| sync.handle == id) {
            sync.void = true;
        }
        Ok(())
    }

    /// Whether an answer of this class has a reason.
    pub(super) fn check_refusal(&self, what: &str, class: ErrorClass) -> Check {
        let full = self.setup.backing == Backing::Thin && class == ErrorClass::NoSpace;
        if self.failed_once || full {
            return Ok(());
        }
        Err(format!("{what} fails ({class}), and nothing did before"))
    }

    /// Data was lost, and told so.
    pub(super) fn lost(&mut self, effect: &Effect) -> Check {
        let Effect::Lost { file, range, why } = effect else {
            return Ok(());
        };
        self.note(|_| format!("{file}: {range} is lost: {why:?}"));
        let allowed = match why {
            Loss::Failed(_) => {
                self.setup.policy == extentwise_engine::ErrorPolicy::Drop
                    && (self.failed_once || self.setup.trouble != Trouble::None)
            }
            Loss::Discarded => self.discarding,
            Loss::MissingOrdered => false,
        };
        if !allowed {
            return Err(format!("{file}: {range} is lost without need: {why:?}"));
        }
        let (start, end) = Self::span(*range);
        let stamp = self.next_stamp();
        self.files[index(*file)].model.loosen(stamp, start, end);
        Ok(())
    }
}
