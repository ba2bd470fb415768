//! Finding a folio among a million against finding one among a thousand: the cost
//! must follow the walk of one lookup, not the size of the cache.
//!
//! Each measurement reads a few neighbours over and over, as programs do, so that
//! both ways run from the processor's caches. The median of many rounds counts, and
//! the two ways take turns: other work on the machine hits both.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use extentwise_engine::{
    BlockSize, Config, Engine, FileId, FileOffset, FileRange, HandleId, Identity, LenBytes, Memory,
    NoMemory, TicketState,
};

/// A lookup among a million may cost so many times one among a thousand.
const LIMIT: f64 = 2.0;
const BLOCK: u64 = 4096;
const NEIGHBOURS: u64 = 64;
const ROUNDS: usize = 400;
const FILE: FileId = FileId(1);

/// Folios without bytes: a million of them fit anywhere.
struct NoBytes;

impl Memory for NoBytes {
    type Bytes = ();

    fn allocate(&mut self, _: usize) -> Result<(), NoMemory> {
        Ok(())
    }

    fn zero(&mut self, (): &mut (), _: Range<usize>) {}
}

/// A cache with one folio for each block of its file.
struct Cache {
    engine: Engine<NoBytes, Identity>,
    handle: HandleId,
    folios: u64,
}

impl Cache {
    fn holding(folios: u64) -> Self {
        let mut config = Config::new(BlockSize::new(BLOCK).expect("a power of two"));
        // Regions of the index are as large as in an ordinary cache; that each folio is
        // one block comes from reading them backwards.
        config.cache_bytes_max = LenBytes::new(2 * folios * BLOCK);
        let mut mapping = Identity::new();
        mapping.add(FILE, FileOffset::ZERO);
        let mut engine = Engine::new(config, NoBytes, mapping).expect("a sound configuration");
        let handle = engine.open(FILE, FileOffset::ZERO).expect("opened");
        let size = FileOffset::new(folios * BLOCK);
        engine.resize(handle, size).expect("resized");
        let mut cache = Self {
            engine,
            handle,
            folios,
        };
        for nth in (0..folios).rev() {
            cache.read(nth);
        }
        assert_eq!(cache.engine.counts().folios, folios);
        assert_eq!(cache.engine.cached_bytes().get(), folios * BLOCK);
        cache
    }

    fn read(&mut self, nth: u64) {
        let range = FileRange::at(FileOffset::new(nth * BLOCK), LenBytes::new(BLOCK));
        let ticket = self.engine.prepare_read(self.handle, range.expect("fits"));
        let ticket = ticket.expect("not refused").expect("below the size");
        assert_eq!(self.engine.read_state(&ticket), TicketState::Ready);
        self.engine.end_read(ticket);
    }

    /// Nanoseconds for the neighbours around a place, each found many times.
    fn round(&mut self, seed: u64) -> u128 {
        let first = seed % (self.folios - NEIGHBOURS);
        // Backwards: reading in sequence would read ahead.
        let lap = |cache: &mut Self| {
            for nth in (first..first + NEIGHBOURS).rev() {
                cache.read(nth);
            }
        };
        lap(self);
        let start = Instant::now();
        (0..8).for_each(|_| lap(self));
        start.elapsed().as_nanos()
    }
}

fn median(mut times: Vec<u128>) -> f64 {
    times.sort_unstable();
    let middle = u32::try_from(times[times.len() / 2]).unwrap_or(u32::MAX);
    f64::from(middle) / f64::from(8 * u32::try_from(NEIGHBOURS).unwrap_or(1))
}

fn main() -> ExitCode {
    let mut few = Cache::holding(1000);
    let mut many = Cache::holding(1_000_000);
    let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
    let mut seed = 1_u64;
    for _ in 0..ROUNDS {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        of_few.push(few.round(seed >> 33));
        of_many.push(many.round(seed >> 33));
    }
    let (few, many) = (median(of_few), median(of_many));
    let ratio = many / few;
    println!("a read that hits: {few:.1} ns among 1,000 folios, {many:.1} ns among 1,000,000");
    println!("ratio {ratio:.2}, limit {LIMIT}");
    ExitCode::from(u8::from(ratio > LIMIT))
}
