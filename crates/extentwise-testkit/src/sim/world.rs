//! An engine, what it runs over, and what is known about both.

use extentwise_engine::{
    Engine, FileId, FileOffset, FileRange, HandleId, LenBytes, OverwriteTicket, ReadTicket, SyncId,
    WriteTicket,
};

use super::effects::Io;
use super::errors::Owed;
use super::memory::{Poisoned, Refusals};
use super::model::Model;
use super::setup::{Setup, Trouble};
use super::store::{FILES, Store};
use super::{Choices, Tally};

/// What does not hold, in words.
pub(super) type Check = Result<(), String>;

/// How device calls come to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faulting {
    /// Not at all.
    Never,
    /// An effect now and then.
    Drawn,
    /// By the plan that the devices have.
    Planned,
}

/// A host that is right, or wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushes {
    Done,
    /// No effect flushes, and no map is persisted behind a flush.
    LeftOut,
}

/// What happens with places to cut the power, if such are noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cuts {
    /// Each is looked at when the effect was carried out.
    LookedAt,
    /// They are for somebody else.
    Kept,
}

/// Completions that come late: of effects that make these calls of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Late {
    pub(super) disk: usize,
    pub(super) first: u64,
    pub(super) last: u64,
}

pub(super) struct World<'c, 'd, S: Store> {
    pub(super) choices: &'c mut Choices<'d>,
    pub(super) setup: Setup,
    pub(super) store: S,
    pub(super) engine: Engine<Poisoned, S::Map>,
    pub(super) refusals: Refusals,
    pub(super) files: Vec<File>,
    pub(super) handles: Vec<Open>,
    pub(super) writes: Vec<HeldWrite>,
    pub(super) loans: Vec<Loan>,
    pub(super) reads: Vec<HeldRead>,
    pub(super) syncs: Vec<HeldSync>,
    pub(super) ios: Vec<Io>,
    /// The time, for versions of bytes; rises with each change and each sync.
    pub(super) stamp: u64,
    pub(super) faulting: Faulting,
    pub(super) flushes: Flushes,
    pub(super) late: Option<Late>,
    /// Something failed, ever: a device call or memory.
    pub(super) failed_once: bool,
    /// A caller was told to wait, and not woken since.
    pub(super) owes_wake: bool,
    pub(super) discarding: bool,
    pub(super) now_nanos: u64,
    /// The most bytes of blocks that writers held at once.
    held_bytes_max: u64,
    pub(super) tally: Tally,
    pub(super) cuts: Cuts,
    /// What happened, for people, if it is asked for.
    pub(super) log: Option<Vec<String>>,
}

/// What is known about a file.
pub(super) struct File {
    pub(super) model: Model,
    /// Whether an error waits for the next handle (E1).
    pub(super) unseen: Owed,
    /// A write failed whose ordered extent may not be over.
    pub(super) unsettled: bool,
    /// A handle reported an error since.
    pub(super) early: bool,
}

/// An open handle.
pub(super) struct Open {
    pub(super) id: HandleId,
    pub(super) file: usize,
    /// Whether it has an error to report (E1).
    pub(super) owes: Owed,
    /// It reported while a failure was not settled.
    pub(super) early: bool,
}

pub(super) struct HeldWrite {
    pub(super) file: usize,
    pub(super) ticket: WriteTicket,
}

/// Cached bytes that a caller was lent.
pub(super) struct Loan {
    pub(super) file: usize,
    pub(super) ticket: OverwriteTicket,
    /// What was written to them, and not committed yet.
    pub(super) written: Vec<FileRange>,
    /// When that began.
    pub(super) since: Option<u64>,
}

pub(super) struct HeldRead {
    pub(super) file: usize,
    pub(super) ticket: ReadTicket,
}

pub(super) struct HeldSync {
    pub(super) id: SyncId,
    pub(super) handle: HandleId,
    pub(super) file: usize,
    pub(super) stamp: u64,
    /// Bytes that it is for; `None`: all, and the size.
    pub(super) range: Option<(usize, usize)>,
    /// Its handle reported an error in the meantime: it promises nothing (E2).
    pub(super) void: bool,
}

impl<'c, 'd, S: Store> World<'c, 'd, S> {
    pub(super) fn new(setup: Setup, choices: &'c mut Choices<'d>) -> Self {
        let (store, map) = S::new(&setup);
        let refusals = Refusals::default();
        let memory = Poisoned::new(refusals.clone());
        let engine = Engine::new(setup.config(), memory, map).expect("sizes from the lists");
        let file = || File {
            model: Model::new(setup.atom(), setup.size_unit()),
            unseen: Owed::No,
            unsettled: false,
            early: false,
        };
        let faulting = match setup.trouble {
            Trouble::None => Faulting::Never,
            Trouble::Faults => Faulting::Drawn,
        };
        Self {
            choices,
            store,
            engine,
            refusals,
            files: (0..FILES).map(|_| file()).collect(),
            handles: Vec::new(),
            writes: Vec::new(),
            loans: Vec::new(),
            reads: Vec::new(),
            syncs: Vec::new(),
            ios: Vec::new(),
            stamp: 1,
            faulting,
            flushes: Flushes::Done,
            late: None,
            failed_once: false,
            owes_wake: false,
            discarding: false,
            now_nanos: 0,
            held_bytes_max: 0,
            tally: Tally::default(),
            cuts: Cuts::LookedAt,
            log: None,
            setup,
        }
    }

    /// One step, chosen; what must hold is looked at behind it.
    pub(super) fn step(&mut self) -> Check {
        self.tally.steps += 1;
        match self.choices.below(64) {
            0..=13 => self.begin_write(),
            14 | 15 => self.use_loan(),
            16..=22 => self.end_some_write(),
            23..=25 => self.begin_read(),
            26..=28 => self.end_some_read(),
            29 | 30 => self.resize(),
            31 | 32 => self.punch(),
            33..=35 => self.sync(),
            36 => self.sync_range(),
            37 => self.open_some(),
            38 => self.close_some(),
            39 => self.tick(),
            40 => self.drop_clean(),
            41 => self.check_errors(),
            42 => self.discard(),
            43..=53 => self.perform_some(),
            _ => self.complete_some(),
        }?;
        self.look()
    }

    /// What holds at all times.
    pub(super) fn look(&mut self) -> Check {
        self.drain()?;
        self.engine.check()?;
        let config = self.engine.config();
        let (max, dirty_max) = (config.cache_bytes_max, config.dirty_bytes_max);
        if self.engine.cached_bytes() > max {
            let cached = self.engine.cached_bytes();
            return Err(format!("{cached} are cached, {max} is the limit (C5)"));
        }
        let block = self.setup.block_size();
        let held = self.writes.iter().map(|held| {
            let range = held.ticket.range();
            block.ceil(range.end().get()) - block.floor(range.start().get())
        });
        self.held_bytes_max = self.held_bytes_max.max(held.sum());
        let dirty = self.engine.dirty_bytes().get();
        let allowed = dirty_max.get() + self.held_bytes_max;
        if dirty > allowed {
            // What could not be written is dirty again, whatever that adds up to.
            let failed = self.engine.blocks().failed.get();
            if dirty > allowed + failed {
                return Err(format!("{dirty} bytes are dirty, {allowed} may be (C5)"));
            }
        }
        Ok(())
    }

    pub(super) fn note(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.log.is_some() {
            let line = line(self);
            self.log.get_or_insert_default().push(line);
        }
    }

    /// A new time.
    pub(super) fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// Nobody holds anything and nothing is under way.
    pub(super) fn is_at_rest(&self) -> bool {
        let held = self.writes.len() + self.loans.len() + self.reads.len();
        self.ios.is_empty() && held == 0
    }

    /// Somebody was told to wait: for something, and he will be woken.
    pub(super) fn told_to_wait(&mut self, what: &str) -> Check {
        self.owes_wake = true;
        self.drain()?;
        if self.is_at_rest() && self.owes_wake {
            return Err(format!("{what} is busy, and nothing is under way"));
        }
        Ok(())
    }

    /// What a crash at this moment leaves for certain is what was promised.
    pub(super) fn check_durable(&self, file: usize) -> Check {
        let (image, size) = self.store.disk_of(file).inner().durable();
        for survivor in self.store.survivors(file, image, size)? {
            if survivor.file == file {
                let model = &self.files[file].model;
                model
                    .check_survivor(survivor.size, &survivor.bytes)
                    .map_err(|fault| format!("durable, file {file}: {fault}"))?;
            }
        }
        Ok(())
    }

    /// A place in a file, often at or near the border of a block, and a range
    /// from there on, often a block or about as long.
    pub(super) fn draw_range(&mut self) -> FileRange {
        let start = self.draw_place();
        let lens = [512, 1, 100, 511, 513, 1024, 1536, 3000];
        let len = self.choices.one_of(&lens);
        let end = (start + len).min(super::model::LEN as u64);
        FileRange::clamped(FileOffset::new(start), FileOffset::new(end))
    }

    pub(super) fn draw_place(&mut self) -> u64 {
        let block = self.choices.below(super::model::LEN as u64 / 512);
        block * 512 + self.choices.one_of(&[0, 0, 0, 1, 100, 511])
    }

    pub(super) fn file_id(file: usize) -> FileId {
        FileId(file as u64)
    }

    /// The bytes of a range, as indexes.
    pub(super) fn span(range: FileRange) -> (usize, usize) {
        let place = |at: FileOffset| usize::try_from(at.get()).unwrap_or(usize::MAX);
        (place(range.start()), place(range.end()))
    }

    pub(super) fn len_of(len: LenBytes) -> usize {
        usize::try_from(len.get()).unwrap_or(usize::MAX)
    }
}
