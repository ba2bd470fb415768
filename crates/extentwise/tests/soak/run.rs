//! One random run.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::thread;

use extentwise::engine::FileOffset;
use extentwise::{
    BlockSize, Config, ErrorClass, ErrorPolicy, File, FileId, Identity, LenBytes, PageCache,
    Patience, Refusal, Setup,
};
use extentwise_testkit::device::{CallKind, Fault, FaultPlan, FaultRule, When};

use crate::disks::{Disks, FILE_LEN_MAX};

/// What happened, so that a test can tell that something did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) calls: u64,
    /// Calls that answered an error.
    pub(crate) refused: u64,
    /// Device calls that failed.
    pub(crate) struck: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.refused += other.refused;
        self.struck += other.struck;
    }
}

type Numbers = Box<dyn FnMut(u64) -> u64 + Send>;

fn numbers(seed: u64) -> Numbers {
    let mut state = seed;
    Box::new(move |limit| extentwise_testkit::seed::next(&mut state) % limit)
}

/// How a run is made.
struct Shape {
    config: Config,
    flushers: NonZeroUsize,
    files: usize,
    writers: usize,
    faulty: bool,
}

impl Shape {
    fn draw(number: &mut Numbers) -> Self {
        let block = 512 << number(4);
        let folio = block << number(6);
        let mut config = Config::new(BlockSize::new(block).expect("a power of two"));
        // Room for a folio of each thread.
        let cache = (folio * 16) << number(3);
        config = config.with_cache_bytes(LenBytes::new(cache));
        config.folio_bytes_max = LenBytes::new(folio);
        config.extent_bytes_max = LenBytes::new(block << number(8));
        config.policy = match number(3) {
            0 => ErrorPolicy::Drop,
            1 => ErrorPolicy::Latch,
            _ => ErrorPolicy::KeepDirty,
        };
        config.dirty_age_max_nanos = 1_000_000 << number(8);
        Self {
            config,
            flushers: NonZeroUsize::new(1 + number(4) as usize).expect("not zero"),
            files: 1 + number(3) as usize,
            writers: 1 + number(5) as usize,
            faulty: number(2) == 0,
        }
    }
}

fn plan(number: &mut Numbers) -> FaultPlan {
    let classes = [ErrorClass::Io, ErrorClass::NoSpace, ErrorClass::Gone];
    let mut plan = FaultPlan::new();
    for kind in [CallKind::Read, CallKind::Write, CallKind::Flush] {
        let fault = match number(4) {
            0 => continue,
            1 => Fault::Short,
            _ => Fault::Error(classes[number(3) as usize]),
        };
        let calls = 3 + number(40) as u32;
        let seed = number(u64::MAX);
        plan = plan.with(FaultRule::new(When::OneIn { calls, seed }, fault).on(kind));
    }
    plan
}

type Cache = PageCache<Identity, Disks>;
type Handle = File<Identity, Disks>;

/// Runs a seed.
pub(crate) fn run(seed: u64) -> Seen {
    let mut number = numbers(seed);
    let shape = Shape::draw(&mut number);
    let mut mapping = Identity::new();
    for id in 0..shape.files {
        mapping.add(FileId(id as u64), FileOffset::ZERO);
    }
    let mut setup = Setup::new(shape.config);
    setup.threads = shape.flushers;
    let cache = PageCache::new(setup, mapping, Disks::new(shape.files)).expect("a sound shape");
    // The size is there before anything fails; who owns a file alone resizes it.
    for id in 0..shape.files {
        let file = open(&cache, id);
        file.resize(FILE_LEN_MAX as u64).expect("nothing fails yet");
        file.close().expect("nothing fails yet");
    }
    if shape.faulty {
        for disk in &cache.host().disks {
            disk.set_plan(plan(&mut number));
        }
    }
    let workers: Vec<Worker> = (0..shape.writers)
        .map(|nth| Worker::new(&cache, nth, &shape, number(u64::MAX)))
        .collect();
    let workers: Vec<Worker> = thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(move || worker.work()))
            .collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|worker| worker.expect("no panic")).collect()
    });
    let mut all = Seen::default();
    for disk in &cache.host().disks {
        all.struck += disk.struck();
        disk.set_plan(FaultPlan::new());
    }
    let workers = workers.into_iter();
    let stripes: Vec<Stripe> = workers.map(|worker| worker.end(&mut all)).collect();
    let kept = shape.config.policy != ErrorPolicy::Drop || !shape.faulty;
    assert!(!kept || !cache.host().has_lost(), "data was lost");
    for stripe in &stripes {
        stripe.check(&cache);
    }
    all
}

fn open(cache: &Cache, file: usize) -> Handle {
    let opened = cache.open(FileId(file as u64), FileOffset::ZERO);
    opened.expect("a file of the map")
}

/// A part of a file that one thread writes, and what it holds.
struct Stripe {
    file: usize,
    start: usize,
    bytes: Vec<u8>,
    /// Bytes of a punch that was refused: it may have begun, so they may be zero
    /// until they are written again.
    maybe_zero: Vec<bool>,
}

impl Stripe {
    /// Compares with the device, but for what was told as lost.
    fn check(&self, cache: &Cache) {
        let host = cache.host();
        let image = host.disks[self.file].inner().snapshot();
        let found = image.bytes(
            extentwise::device::DiskByte::ZERO,
            self.start + self.bytes.len(),
        );
        let mut from = 0;
        while let Some((at, right)) = self.mismatch(from, &found[self.start + from..]) {
            assert!(
                host.is_lost(self.file, self.start + at),
                "file {}: byte {} of the device is {} and must be {right}",
                self.file,
                self.start + at,
                found[self.start + at]
            );
            from = at + 1;
        }
    }

    /// The first of the bytes from `from` on that is wrong, and what it must be.
    fn mismatch(&self, from: usize, found: &[u8]) -> Option<(usize, u8)> {
        let own = (from..).zip(&self.bytes[from..]);
        let mut both = own.zip(found);
        let wrong = both
            .find(|((at, right), found)| right != found && !(self.maybe_zero[*at] && **found == 0));
        wrong.map(|((at, right), _)| (at, *right))
    }
}

/// A thread with a stripe of its own in a file that others write beside it.
struct Worker {
    cache: Cache,
    handle: Handle,
    /// Handles that refuse writes.
    latched: Vec<Handle>,
    stripe: Stripe,
    number: Numbers,
    /// Whether what is read must be what was written.
    exact: bool,
    seen: Seen,
}

impl Worker {
    fn new(cache: &Cache, nth: usize, shape: &Shape, seed: u64) -> Self {
        let file = nth % shape.files;
        // Stripes divide folios and blocks: neighbours meet in them.
        let len = FILE_LEN_MAX / shape.writers.div_ceil(shape.files);
        Self {
            cache: cache.clone(),
            handle: open(cache, file),
            latched: Vec::new(),
            stripe: Stripe {
                file,
                start: nth / shape.files * len,
                bytes: vec![0; len],
                maybe_zero: vec![false; len],
            },
            number: numbers(seed),
            exact: shape.config.policy != ErrorPolicy::Drop || !shape.faulty,
            seen: Seen::default(),
        }
    }

    fn work(mut self) -> Self {
        for _ in 0..250 {
            self.seen.calls += 1;
            let range = self.range();
            match (self.number)(10) {
                0..=4 => self.write(range),
                5 | 6 => self.read(range),
                7 => {
                    let synced = self.handle.sync();
                    self.took(synced);
                }
                8 => {
                    let (start, end) = self.place(&range);
                    let synced = self.handle.sync_range(start, end);
                    self.took(synced);
                }
                _ => {
                    let (start, end) = self.place(&range);
                    match self.handle.punch(start, end) {
                        Ok(()) => self.stripe.bytes[range].fill(0),
                        Err(refusal) => {
                            self.stripe.maybe_zero[range].fill(true);
                            self.refused(refusal);
                        }
                    }
                }
            }
        }
        self
    }

    /// A part of the stripe.
    fn range(&mut self) -> Range<usize> {
        let len = self.stripe.bytes.len();
        let start = (self.number)(len as u64) as usize;
        let len = (self.number)(12_000) as usize + 1;
        start..self.stripe.bytes.len().min(start + len)
    }

    fn place(&self, range: &Range<usize>) -> (u64, u64) {
        let start = self.stripe.start;
        ((start + range.start) as u64, (start + range.end) as u64)
    }

    fn write(&mut self, range: Range<usize>) {
        let new: Vec<u8> = range.clone().map(|_| (self.number)(256) as u8).collect();
        let (at, _) = self.place(&range);
        let written = if (self.number)(4) == 0 {
            let part = self.handle.write_part(at, &new, Patience::Try);
            part.unwrap_or_else(|refusal| {
                self.refused(refusal);
                0
            })
        } else {
            match self.handle.write_at(at, &new) {
                Ok(()) => new.len(),
                Err((done, refusal)) => {
                    self.refused(refusal);
                    done
                }
            }
        };
        let written = range.start..range.start + written;
        self.stripe.maybe_zero[written.clone()].fill(false);
        self.stripe.bytes[written.clone()].copy_from_slice(&new[..written.len()]);
    }

    fn read(&mut self, range: Range<usize>) {
        let mut found = vec![0; range.len()];
        let (at, _) = self.place(&range);
        match self.handle.read_at(at, &mut found) {
            Ok(read) if self.exact && !self.cache.host().has_lost() => {
                assert_eq!(read, range.len(), "a read inside the file is whole");
                if let Some((at, right)) = self.stripe.mismatch(range.start, &found) {
                    let start = self.stripe.start;
                    panic!("byte {} reads otherwise and must be {right}", start + at);
                }
            }
            Ok(_) => {}
            Err(refusal) => self.refused(refusal),
        }
    }

    fn took(&mut self, result: Result<(), Refusal>) {
        if let Err(refusal) = result {
            self.refused(refusal);
        }
    }

    fn refused(&mut self, refusal: Refusal) {
        self.seen.refused += 1;
        match refusal {
            Refusal::Busy | Refusal::Failed(_) => {}
            Refusal::Latched(_) => {
                // The latched one is kept: whoever drops it discards what is dirty.
                let new = open(&self.cache, self.stripe.file);
                self.latched.push(std::mem::replace(&mut self.handle, new));
            }
            refused => panic!("a call inside the file is refused: {refused}"),
        }
    }

    /// Writes everything back to devices that work again.
    fn end(mut self, all: &mut Seen) -> Stripe {
        // The first may tell an old error (E1).
        let mut synced = self.handle.sync();
        for _ in 0..3 {
            if synced.is_err() {
                self.seen.refused += 1;
                synced = self.handle.sync();
            }
        }
        assert_eq!(
            synced,
            Ok(()),
            "the device works, and a sync fails again and again"
        );
        assert!(self.handle.close().is_ok(), "what was synced can be closed");
        all.add(self.seen);
        self.stripe
    }
}
