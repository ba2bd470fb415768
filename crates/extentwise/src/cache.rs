//! The cache: the engine behind a lock, and the threads that serve it.

use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use extentwise_engine::{
    Blocks, Config, ConfigError, Counts, Engine, ErrorClass, FileId, FileOffset, Host, Mapping,
    Refusal, SyncId,
};

use crate::File;
use crate::flusher;
use crate::memory::SharedMemory;

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
        let engine = Engine::new(setup.config, SharedMemory, mapping)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                engine,
                ended: Vec::new(),
                stopping: false,
            }),
            changed: Condvar::new(),
            work: Condvar::new(),
            host,
            started: Instant::now(),
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
        let handle = self.shared().lock().engine.open(id, size)?;
        Ok(File::new(self.clone(), handle))
    }

    /// What was done since the cache was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.shared().lock().engine.counts()
    }

    /// What the cache holds. Costs a step for each block.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        self.shared().lock().engine.blocks()
    }

    /// Drops every folio that can be dropped without a loss.
    pub fn drop_clean(&self) {
        let mut state = self.shared().lock();
        state.engine.drop_clean();
        self.shared().notify(&state);
    }

    /// The host of the devices.
    #[must_use]
    pub fn host(&self) -> &H {
        &self.shared().host
    }

    /// Calls `look` with the map, while the cache is locked.
    pub fn with_mapping<T>(&self, look: impl FnOnce(&mut P) -> T) -> T {
        look(self.shared().lock().engine.mapping_mut())
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
    flushers: Vec<JoinHandle<()>>,
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
    started: Instant,
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct State<P: Mapping> {
    pub(crate) engine: Engine<SharedMemory, P>,
    /// Syncs that ended and whose callers do not know yet.
    pub(crate) ended: Vec<(SyncId, Result<(), ErrorClass>)>,
    pub(crate) stopping: bool,
}

impl<P: Mapping, H> Shared<P, H> {
    /// The engine checks its own state: what a thread that panicked left is no
    /// worse than a call that was refused.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changed.
    pub(crate) fn wait<'a>(&self, state: MutexGuard<'a, State<P>>) -> MutexGuard<'a, State<P>> {
        self.notify(&state);
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a thread of the cache if there is something to carry out.
    pub(crate) fn notify(&self, state: &State<P>) {
        if state.engine.has_effects() {
            self.work.notify_one();
        }
    }

    /// Nanoseconds since the cache was made.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
