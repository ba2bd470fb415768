//! The cache: the engine behind a lock, and the threads that serve it.

use std::num::NonZeroUsize;
use std::sync::PoisonError;
use std::time::Duration;

use extentwise_engine::{
    Blocks, Config, ConfigError, Counts, Engine, ErrorClass, FileId, FileOffset, Host, LenBytes,
    Mapping, Refusal, SyncId,
};

use crate::File;
use crate::flusher;
use crate::lease::{Leases, Lent};
use crate::memory::SharedMemory;
use crate::sync::{Arc, Clock, Condvar, Mutex, MutexGuard, thread};

/// What a cache is made with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Sizes, limits and policies of the engine.
    pub config: Config,
    /// Threads that read from and write to devices; two.
    pub threads: NonZeroUsize,
}

impl Setup {
    /// Two threads for an engine with this configuration.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            threads: NonZeroUsize::MIN.saturating_add(1),
        }
    }
}

/// A cache at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// What was done since the cache was made, with how long bios took.
    pub counts: Counts,
    /// Blocks by state; they add up to what is cached (C10).
    pub blocks: Blocks,
    /// Bytes of folios in memory.
    pub cached: LenBytes,
    /// Bytes that are dirty.
    pub dirty: LenBytes,
}

/// A page cache that threads share; clones are the same cache.
///
/// It lives until the last clone and the last [`File`] are gone. Then its
/// threads carry out what is under way and end.
#[derive(Debug)]
pub struct PageCache<P, H>(Arc<Served<P, H>>)
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static;

impl<P, H> Clone for PageCache<P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P, H> PageCache<P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    /// A cache over the devices of `host`.
    pub fn new(setup: Setup, mapping: P, host: H) -> Result<Self, ConfigError> {
        let engine = Engine::new(setup.config, SharedMemory::new(&setup.config), mapping)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                engine,
                ended: Vec::new(),
                lent: Vec::new(),
                waits: Vec::new(),
                failures: 0,
                idle: 0,
                ticking: false,
                recalled: Duration::ZERO,
                stopping: false,
            }),
            changed: Condvar::new(),
            work: Condvar::new(),
            host,
            clock: Clock::start(),
        });
        let flushers = (0..setup.threads.get())
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || flusher::serve(&shared))
            })
            .collect();
        Ok(Self(Arc::new(Served { shared, flushers })))
    }

    /// Opens a file that has `size` bytes on record; one that is known already
    /// keeps the size that it has.
    pub fn open(&self, id: FileId, size: FileOffset) -> Result<File<P, H>, Refusal> {
        let mut state = self.shared().lock();
        let handle = state.engine.open(id, size)?;
        let leases = Leases::new(state.engine.config());
        drop(state);
        Ok(File::new(self.clone(), (handle, id), leases))
    }

    /// What was done since the cache was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.settled().engine.counts()
    }

    /// What the cache holds. Costs a step for each block.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        self.settled().engine.blocks()
    }

    /// What was done and what the cache holds, at one moment. Costs a step for
    /// each block.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let state = self.settled();
        Snapshot {
            counts: *state.engine.counts(),
            blocks: state.engine.blocks(),
            cached: state.engine.cached_bytes(),
            dirty: state.engine.dirty_bytes(),
        }
    }

    /// Drops every folio that can be dropped without a loss.
    pub fn drop_clean(&self) {
        let mut state = self.settled();
        state.engine.drop_clean();
        self.shared().settle(&mut state);
    }

    /// The host of the devices.
    #[must_use]
    pub fn host(&self) -> &H {
        &self.shared().host
    }

    /// Calls `look` with the map, while the cache is locked.
    pub fn with_mapping<T>(&self, look: impl FnOnce(&mut P) -> T) -> T {
        look(self.settled().engine.mapping_mut())
    }

    /// The engine, knowing of everything that was written.
    fn settled(&self) -> MutexGuard<'_, State<P>> {
        let mut state = self.shared().lock();
        state.recall_all();
        self.shared().settle(&mut state);
        state
    }

    pub(crate) fn shared(&self) -> &Shared<P, H> {
        &self.0.shared
    }
}

/// The threads end with the last owner of the cache.
#[derive(Debug)]
struct Served<P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    shared: Arc<Shared<P, H>>,
    flushers: Vec<thread::JoinHandle<()>>,
}

impl<P, H> Drop for Served<P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_all();
        for flusher in self.flushers.drain(..) {
            // A host that panicked has said so.
            let _ = flusher.join();
        }
    }
}

/// What the handles and the threads of a cache share.
#[derive(Debug)]
pub(crate) struct Shared<P: Mapping, H> {
    state: Mutex<State<P>>,
    /// Something changed that a handle may wait for.
    pub(crate) changed: Condvar,
    /// There are effects to carry out, or the cache ends.
    pub(crate) work: Condvar,
    pub(crate) host: H,
    clock: Clock,
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct State<P: Mapping> {
    pub(crate) engine: Engine<SharedMemory, P>,
    /// Syncs that ended and whose callers do not know yet.
    pub(crate) ended: Vec<(SyncId, Result<(), ErrorClass>)>,
    /// The leases that are out.
    pub(crate) lent: Vec<Lent>,
    /// For each handle that waits, the file of which it waits for something, or
    /// `None` if that may be of any. Nothing of these files is lent meanwhile.
    pub(crate) waits: Vec<Option<FileId>>,
    /// Failures that leases were recalled for: what may be written has changed.
    failures: u64,
    /// Flushers that wait for work.
    pub(crate) idle: u32,
    /// One of them waits no longer than until dirty data has to be looked at.
    pub(crate) ticking: bool,
    /// When all leases were recalled for their age.
    pub(crate) recalled: Duration,
    pub(crate) stopping: bool,
}

impl<P: Mapping> State<P> {
    /// Whether something has to be looked at again after a while.
    pub(crate) fn may_age(&self) -> bool {
        !self.lent.is_empty() || !self.engine.dirty_bytes().is_zero()
    }
}

impl<P: Mapping, H> Shared<P, H> {
    /// The engine checks its own state: what a thread that panicked left is no
    /// worse than a call that was refused.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changed, of `file` if it is one that is waited for.
    /// What is waited for may be lent: that is taken back first, and then it is
    /// time to look again.
    pub(crate) fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State<P>>,
        file: Option<FileId>,
    ) -> MutexGuard<'a, State<P>> {
        if state.recall_all() {
            self.settle(&mut state);
            return state;
        }
        state.waits.push(file);
        self.settle(&mut state);
        let waited = self.changed.wait(state);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(nth) = state.waits.iter().position(|waits| *waits == file) {
            state.waits.swap_remove(nth);
        }
        state
    }

    /// After a call of the engine: wakes a thread of the cache if there is
    /// something for it to do, and recalls leases after a failure, for a handle
    /// may refuse writes from then on (C2).
    pub(crate) fn settle(&self, state: &mut State<P>) {
        let failures = state.engine.counts().failures;
        if state.failures != failures {
            state.failures = failures;
            state.recall_all();
        }
        let work = state.engine.has_effects() || (!state.ticking && state.may_age());
        if work && state.idle > 0 {
            self.work.notify_one();
        }
    }

    /// Time since the cache was made.
    pub(crate) fn now(&self) -> Duration {
        self.clock.elapsed()
    }
}
