//! What callers do with cached bytes that the engine lends them.

use extentwise_engine::{FileOffset, FileRange};

use super::ops::{bytes_of, copy};
use super::store::Store;
use super::world::{Check, Loan, World};

const LOANS_MAX: usize = 4;

impl<S: Store> World<'_, '_, S> {
    /// Begins a loan, writes to one, or ends one.
    pub(super) fn use_loan(&mut self) -> Check {
        if self.loans.is_empty() {
            return self.begin_loan();
        }
        let nth = self.choices.index(self.loans.len());
        match self.choices.below(8) {
            0 | 1 if self.loans.len() < LOANS_MAX => self.begin_loan(),
            2 => self.end_loan(nth),
            _ => self.write_to_loan(nth),
        }
    }

    fn begin_loan(&mut self) -> Check {
        let nth = self.some_handle()?;
        let (id, file) = (self.handles[nth].id, self.handles[nth].file);
        let within = self.draw_range();
        let (start, end) = Self::span(within);
        let at = FileOffset::new((start + self.choices.index(end - start)) as u64);
        let size = self.files[file].model.size();
        let Some(ticket) = self.engine.prepare_overwrite(id, at, within) else {
            return self.drain();
        };
        let lent = ticket.range();
        self.note(|_| format!("file {file}: {lent} of {within} is lent for {at}"));
        if !within.covers(lent) || !lent.contains(at) || lent.end().get() > size {
            return Err(format!(
                "{lent} of {within} is lent for {at}, the size is {size}"
            ));
        }
        self.loans.push(Loan {
            file,
            ticket,
            written: Vec::new(),
            since: None,
        });
        self.drain()
    }

    /// Writes to a part of what is lent; readers see it at once.
    fn write_to_loan(&mut self, nth: usize) -> Check {
        let stamp = self.next_stamp();
        let loan = &mut self.loans[nth];
        let (start, end) = Self::span(loan.ticket.range());
        let from = start + self.choices.index(end - start);
        let to = from + 1 + self.choices.index(end - from);
        let Some((bytes, place)) = self.engine.overwrite_target(&loan.ticket) else {
            return Err("bytes that are lent have no memory".into());
        };
        copy(
            &mut bytes[place][from - start..to - start],
            from,
            bytes_of(stamp),
        );
        let [first, behind] = [from, to].map(|at| FileOffset::new(at as u64));
        loan.written.push(FileRange::clamped(first, behind));
        loan.since.get_or_insert(stamp);
        let file = loan.file;
        let model = &mut self.files[file].model;
        model.write(stamp, from, to - from, bytes_of(stamp));
        self.note(|_| format!("file {file}: write {from}..{to}, which are lent"));
        self.drain()
    }

    /// Gives it back, and tells what was written; or drops it.
    pub(super) fn end_loan(&mut self, nth: usize) -> Check {
        let loan = self.loans.swap_remove(nth);
        let file = loan.file;
        let lent = loan.ticket.range();
        if self.choices.one_in(8) {
            drop(loan.ticket);
            self.note(|_| format!("file {file}: {lent} is dropped"));
            // It is given back at the engine's next call.
            self.engine.drop_clean();
            return self.drain();
        }
        let committed = self.engine.commit_overwrite(loan.ticket, loan.written);
        self.note(|_| format!("file {file}: {lent} is given back: {committed:?}"));
        committed.map_err(|refusal| format!("a commit of lent bytes is refused: {refusal}"))?;
        self.drain()
    }

    /// The time up to which all that was written to a file is committed: a sync
    /// that begins now covers that.
    pub(super) fn committed_before(&self, file: usize) -> u64 {
        let loans = self.loans.iter().filter(|loan| loan.file == file);
        let first = loans.filter_map(|loan| loan.since).min();
        first.map_or(self.stamp, |since| since - 1)
    }
}
