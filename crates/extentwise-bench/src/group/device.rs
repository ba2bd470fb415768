//! Rows 16 to 18: writes that reach a device, against the kernel's page cache and
//! against direct I/O, on the same file of a file system on a loop device.

use std::cell::Cell;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use extentwise_device::{DiskByte, write_all};
use extentwise_engine::{
    BlockSize, Calls, Config, Engine, FileId, FileOffset, HandleId, Identity, LenBytes,
};
use extentwise_host::{DirectDevice, FileOptions, RingMemory, UringDriver};
use extentwise_memory::Folio;

use crate::bits::numbers;
use crate::files::Files;
use crate::mount::{Kind, Medium, Mount, file_written_by};
use crate::paired::{Effort, Peer, against_all};
use crate::pass::BLOCK;
use crate::row::{Bar, Outcome, Row};

const LARGE: usize = 2 << 20;
const SMALL: usize = 4096;
/// Transfers of direct I/O under way.
const DIRECT_DEPTH: u32 = 16;
/// Transfers of ours under way: a sync of the random work writes a thousand blocks,
/// and the kernel hands all of its own to the device at once too.
const DEPTH: u32 = 1024;
/// Writes between two syncs of the random work.
const SYNC_EVERY: u64 = 1000;
/// At least five pairs, by the rule.
const ROUNDS: usize = 5;

const IDS: [(&str, &str); 3] = [
    ("16", "sequential 2 MiB overwrites, synced"),
    ("17", "random 4 KiB overwrites, a sync every 1,000"),
    ("18", "device writes of both"),
];

/// How much is written.
struct Amount {
    sequential_bytes: u64,
    random_file_bytes: u64,
    random_writes: u64,
}

pub(crate) fn rows(effort: Effort) -> Vec<Outcome> {
    let amount = match effort {
        Effort::Quick => Amount {
            sequential_bytes: 512 << 20,
            random_file_bytes: 256 << 20,
            random_writes: 8_000,
        },
        Effort::Full => Amount {
            sequential_bytes: 4 << 30,
            random_file_bytes: 1 << 30,
            random_writes: 50_000,
        },
    };
    measure(&amount).unwrap_or_else(|error| {
        let skip = |(id, name)| Outcome::skipped(id, name, format!("{error:#}"));
        IDS.map(skip).into()
    })
}

fn measure(amount: &Amount) -> Result<Vec<Outcome>> {
    let bytes = amount.sequential_bytes + (1 << 30);
    let mount = Mount::new(Kind::Xfs, bytes, Medium::Disk)
        .or_else(|_| Mount::new(Kind::Ext4, bytes, Medium::Disk))?;
    println!("rows 16 to 18 are on {}", mount.kind().name());
    let path = mount.root().join("file");
    let mut rows = sequential(&mount, &path, amount.sequential_bytes)?;
    std::fs::remove_file(&path)?;
    rows.extend(random(&mount, &path, amount)?);
    Ok(rows)
}

/// What somebody took for a piece of work, and the device writes of each time.
struct Counted<'a> {
    mount: &'a Mount,
    writes: Cell<Vec<f64>>,
}

impl<'a> Counted<'a> {
    const fn new(mount: &'a Mount) -> Self {
        Self {
            mount,
            writes: Cell::new(Vec::new()),
        }
    }

    /// Nanoseconds of the work; the first that fails ends the run.
    fn time(&self, work: impl FnOnce() -> Result<()>) -> f64 {
        let before = self.mount.device_writes().unwrap_or_default();
        let start = Instant::now();
        let done = work();
        let nanos = start.elapsed().as_secs_f64() * 1e9;
        if let Err(error) = done {
            panic!("a write to a real device failed: {error:#}");
        }
        let writes = self.mount.device_writes().unwrap_or_default() - before;
        let mut all = self.writes.take();
        all.push(writes as f64);
        self.writes.set(all);
        nanos
    }

    /// The least of all times: whatever else writes only adds.
    fn least(&self) -> f64 {
        self.writes.take().into_iter().fold(f64::INFINITY, f64::min)
    }
}

/// Row 16: the slower of both peers counts.
fn sequential(mount: &Mount, path: &Path, bytes: u64) -> Result<Vec<Outcome>> {
    let file = file_written_by(path, bytes, LARGE)?;
    let direct = DirectDevice::open(path, FileOptions::default())?;
    let mut ours = Ours::new(path, bytes)?;
    ours.fill(bytes)?;
    let data = Folio::copied(&vec![0xa5; LARGE]).map_err(|error| anyhow!("{error:?}"))?;
    let (own, cached, queued) = (
        Counted::new(mount),
        Counted::new(mount),
        Counted::new(mount),
    );
    let peers = vec![
        Peer::new("kernel page cache, then fsync", || {
            cached.time(|| {
                for at in (0..bytes).step_by(LARGE) {
                    file.write_all_at(&data, at)?;
                }
                Ok(file.sync_all()?)
            })
        }),
        Peer::new("O_DIRECT, 16 in flight, then fsync", || {
            queued.time(|| {
                write_direct(&direct, bytes, &data)?;
                Ok(file.sync_all()?)
            })
        }),
    ];
    let write = || {
        own.time(|| {
            for at in (0..bytes).step_by(LARGE) {
                ours.write(at, &data)?;
            }
            ours.sync()
        })
    };
    let all = against_all(ROUNDS, write, peers);
    let slower = all.into_iter().max_by(|a, b| a.peer.total_cmp(&b.peer));
    let paired = slower.context("no peer")?;
    let mib = bytes as f64 / f64::from(1 << 20);
    let name = format!("{}, {mib} MiB", IDS[0].1);
    Ok(vec![
        Row::of_rates("16", name, Bar::goal(1.0), (paired, mib, "MiB/s")).into(),
        device_writes(
            "sequential",
            own.least(),
            (cached.least(), "kernel page cache"),
        ),
    ])
}

/// Row 17, over both sizes of the kernel's folios.
fn random(mount: &Mount, path: &Path, amount: &Amount) -> Result<Vec<Outcome>> {
    let mut rows = Vec::new();
    for (call, goal, folios) in [(SMALL, 1.0, "4 KiB folios"), (LARGE, 2.5, "2 MiB folios")] {
        let bytes = amount.random_file_bytes;
        let file = file_written_by(path, bytes, call)?;
        let mut ours = Ours::new(path, bytes)?;
        ours.fill(bytes)?;
        let (own, cached) = (Counted::new(mount), Counted::new(mount));
        let data = [0xa5; SMALL];
        let (mut place, mut other_place) = (places(bytes), places(bytes));
        let name = format!("kernel page cache, {folios}");
        let peer = Peer::new(&name, || {
            cached.time(|| {
                for nth in 1..=amount.random_writes {
                    file.write_all_at(&data, other_place())?;
                    if nth % SYNC_EVERY == 0 {
                        file.sync_all()?;
                    }
                }
                Ok(())
            })
        });
        let write = || {
            own.time(|| {
                for nth in 1..=amount.random_writes {
                    ours.write(place(), &data)?;
                    if nth % SYNC_EVERY == 0 {
                        ours.sync()?;
                    }
                }
                Ok(())
            })
        };
        let mut all = against_all(ROUNDS, write, vec![peer]);
        let paired = all.pop().context("no peer")?;
        let thousands = amount.random_writes as f64 / 1000.0;
        let work = format!("{}, {} MiB", IDS[1].1, bytes >> 20);
        rows.push(Row::of_rates("17", work, Bar::goal(goal), (paired, thousands, "k/s")).into());
        rows.push(device_writes(
            "random",
            own.least(),
            (cached.least(), &name),
        ));
        std::fs::remove_file(path)?;
    }
    Ok(rows)
}

fn device_writes(work: &str, ours: f64, (peer, peer_name): (f64, &str)) -> Outcome {
    let name = format!("device writes, {work}");
    Row::of_costs(
        "18",
        name,
        Bar::goal(1.0),
        "writes",
        (ours, peer, peer_name),
    )
    .into()
}

/// Block-aligned places, the same for both.
fn places(bytes: u64) -> impl FnMut() -> u64 {
    let mut number = numbers(5);
    move || number() % (bytes / BLOCK) * BLOCK
}

/// Threads that each write the next 2 MiB past the page cache.
fn write_direct(device: &DirectDevice, bytes: u64, data: &[u8]) -> Result<()> {
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(LARGE as u64, Ordering::Relaxed);
            if at >= bytes {
                return Ok(());
            }
            write_all(device, DiskByte::new(at), &[data]).map_err(|error| anyhow!("{error}"))?;
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..DIRECT_DEPTH).map(|_| scope.spawn(work)).collect();
        let mut ends = workers.into_iter().map(ScopedJoinHandle::join);
        ends.try_for_each(|end| end.map_err(|_| anyhow!("a thread panicked"))?)
    })
}

/// An engine over `io_uring` and direct I/O, with all of the file in its cache.
struct Ours {
    driver: UringDriver<Identity, Files<DirectDevice>>,
    handle: HandleId,
}

impl Ours {
    fn new(path: &Path, bytes: u64) -> Result<Self> {
        let file = FileId(0);
        let size = FileOffset::new(bytes);
        // The kernel may use all memory; its writers begin to wait at a fifth of it.
        let mut config = Config::new(BlockSize::new(BLOCK).context("a block")?)
            .with_cache_bytes(LenBytes::new(bytes + bytes / 4));
        // Multiples of the 1,280 KiB that a loop device takes at a time.
        config.extent_bytes_max = LenBytes::new(20 << 20);
        config.dirty_bytes_background = LenBytes::new(80 << 20);
        config.file_dirty_bytes_max = config.dirty_bytes_max;
        let mut mapping = Identity::new();
        mapping.add(file, size);
        let engine = Engine::new(config, RingMemory::new(&config), mapping)?;
        let device = DirectDevice::open(path, FileOptions::default())?;
        let mut driver = UringDriver::new(engine, Files(vec![device]), DEPTH)?;
        let handle = driver.engine_mut().open(file, size)?;
        Ok(Self { driver, handle })
    }

    /// Touches all of the cache's memory.
    fn fill(&mut self, bytes: u64) -> Result<()> {
        let data = vec![0x5a; LARGE];
        for at in (0..bytes).step_by(LARGE) {
            self.write(at, &data)?;
        }
        self.sync()
    }

    fn write(&mut self, at: u64, data: &[u8]) -> Result<()> {
        let written = self.driver.write(self.handle, FileOffset::new(at), data);
        written.map_err(|(_, refusal)| refusal.into())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.driver.sync(self.handle)?)
    }
}
