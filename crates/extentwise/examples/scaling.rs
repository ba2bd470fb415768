//! How fast cached bytes are overwritten, and whether two threads do twice as
//! much as one.
//!
//! `cargo run --release -p extentwise --example scaling` prints nanoseconds for
//! each write and the ratios, and exits 1 if a ratio is below its goal. One and
//! two threads are measured in turn, so that a busy machine slows both; the best
//! of the pairs is judged, for nothing but idle processors can be missing in the
//! others.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use extentwise::device::{DeviceError, DeviceGeometry};
use extentwise::{
    BlockSize, Config, File, FileId, FileOffset, Host, Identity, LenBytes, PageCache, Setup,
};
use extentwise_testkit::device::MemoryDevice;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const PAIRS: usize = 5;
const TIME: Duration = Duration::from_millis(200);

/// One device for all files: nothing is written back meanwhile.
struct Memory(MemoryDevice);

impl Host<Identity> for Memory {
    type Device = MemoryDevice;

    fn device(&self, _: FileId) -> Result<&MemoryDevice, DeviceError> {
        Ok(&self.0)
    }

    fn persist(&self, mapping: &mut Identity, file: FileId) -> Result<(), DeviceError> {
        let _ = mapping.take_pending(file);
        Ok(())
    }
}

type Cached = File<Identity, Memory>;

/// The writes of one thread: records of `len` bytes at places from `start` on,
/// within `span` bytes.
#[derive(Clone, Copy)]
struct Writes {
    start: u64,
    span: u64,
    len: usize,
}

impl Writes {
    /// Writes until the time is over; answers how many a second.
    fn run(self, file: &Cached) -> f64 {
        let record = vec![0x5a; self.len];
        let places = (self.span / self.len as u64).max(1);
        let (mut seed, mut count) = (self.start | 1, 0_u32);
        let begun = Instant::now();
        loop {
            for _ in 0..500 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = self.start + (seed >> 33) % places * self.len as u64;
                file.write_at(black_box(at), black_box(&record)).unwrap();
            }
            count += 500;
            let passed = begun.elapsed();
            if passed >= TIME {
                return f64::from(count) / passed.as_secs_f64();
            }
        }
    }

    /// Nanoseconds of a write, the median of some runs.
    fn nanos(self, file: &Cached) -> f64 {
        median((0..PAIRS).map(|_| 1e9 / self.run(file)).collect())
    }
}

/// How much more two threads write than one; of some pairs the median and the
/// best.
fn ratios(writers: [(&Cached, Writes); 2]) -> (f64, f64) {
    let pairs: Vec<f64> = (0..PAIRS)
        .map(|_| {
            let one = writers.map(|(file, writes)| writes.run(file));
            let start = Barrier::new(2);
            let both: f64 = thread::scope(|scope| {
                let threads = writers.map(|(file, writes)| {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        writes.run(file)
                    })
                });
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .sum()
            });
            both * 2.0 / (one[0] + one[1])
        })
        .collect();
    let best = pairs.iter().copied().fold(0.0, f64::max);
    (median(pairs), best)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> ExitCode {
    let block = BlockSize::new(4096).unwrap();
    let config = Config::new(block).with_cache_bytes(LenBytes::new(1 << 30));
    let mut mapping = Identity::new();
    (0..3).for_each(|id| mapping.add(FileId(id), FileOffset::ZERO));
    let device = MemoryDevice::new(DeviceGeometry::new(1, 4096).unwrap());
    let cache = PageCache::new(Setup::new(config), mapping, Memory(device)).unwrap();
    let open = |id, size: u64| {
        let file = cache.open(FileId(id), FileOffset::ZERO).unwrap();
        let chunk = vec![1; 1 << 20];
        (0..size / MIB).for_each(|nth| file.write_at(nth * MIB, &chunk).unwrap());
        file.sync().unwrap();
        file
    };
    let (one, two, large) = (open(0, 8 * MIB), open(1, 8 * MIB), open(2, 64 * MIB));

    println!("one thread, nanoseconds a write:");
    let rows = [
        ("1 KiB, the same place", &one, 0, KIB, Some(100.0)),
        ("10 KiB, the same place", &one, 0, 10 * KIB, Some(250.0)),
        ("1 KiB, anywhere in 1 MiB", &one, MIB, KIB, None),
        (
            "10 KiB, anywhere in 64 MiB",
            &large,
            64 * MIB,
            10 * KIB,
            Some(600.0),
        ),
    ];
    for (name, file, span, len, goal) in rows {
        let len = usize::try_from(len).unwrap();
        let writes = Writes {
            start: 0,
            span,
            len,
        };
        let nanos = writes.nanos(file);
        let goal = goal.map_or(String::new(), |goal| format!("goal {goal:.0}"));
        println!("  {name:<28}{nanos:>8.0}   {goal}");
    }

    println!("two threads to one, 1 KiB records:   median   best   goal");
    let near = |start| Writes {
        start,
        span: MIB,
        len: 1024,
    };
    let rows = [
        ("in two files", [(&one, near(0)), (&two, near(0))], 1.8),
        (
            "in two folios of one file",
            [(&one, near(0)), (&one, near(4 * MIB))],
            1.6,
        ),
    ];
    let mut held = true;
    for (name, writers, goal) in rows {
        let (median, best) = ratios(writers);
        held &= best >= goal;
        println!("  {name:<34}{median:>7.2}{best:>7.2}{goal:>7.1}");
    }
    if held {
        return ExitCode::SUCCESS;
    }
    println!("a ratio is below its goal");
    ExitCode::from(1)
}
