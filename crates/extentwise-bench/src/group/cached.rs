//! Rows 12, 13 and 20: small writes into a file that is cached, through handles that
//! threads share, against `pwrite` on file systems of the kernel.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use extentwise::{Identity, PageCache, Setup};
use extentwise_engine::{BlockSize, Config, FileId, FileOffset, LenBytes};
use extentwise_host::{FileDevice, FileOptions, Missing};
use tempfile::TempDir;

use crate::bits::numbers;
use crate::files::Files;
use crate::mount::{Kind, Medium, Mount, file_written_by};
use crate::paired::{Effort, Peer, against_best, pair, time};
use crate::pass::BLOCK;
use crate::pin::pinned;
use crate::row::{Bar, Outcome, Row};

/// Bytes of each file.
pub(crate) const FILE_BYTES: u64 = 64 << 20;
/// Writes in a batch.
const BATCH: u32 = 1000;
/// Writes of a thread: enough that starting it does not count.
const THREAD_BATCH: u32 = 1_000_000;
const LARGE: usize = 2 << 20;
const SMALL: usize = 4096;

pub(crate) type Handle = extentwise::File<Identity, Files<FileDevice>>;

/// Where writes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    Same,
    Random,
}

/// One kind of write.
struct Work {
    id: &'static str,
    name: &'static str,
    len: usize,
    places: Places,
    goal: f64,
}

const WORKS: [Work; 3] = [
    Work {
        id: "12",
        name: "cached overwrite of 1 KiB, same place",
        len: 1024,
        places: Places::Same,
        goal: 4.0,
    },
    Work {
        id: "13",
        name: "cached overwrite of 10 KiB, same place",
        len: 10_240,
        places: Places::Same,
        goal: 2.0,
    },
    Work {
        id: "13",
        name: "cached overwrite of 10 KiB, random places",
        len: 10_240,
        places: Places::Random,
        goal: 1.2,
    },
];

pub(crate) fn rows(effort: Effort) -> Vec<Outcome> {
    let rounds = match effort {
        Effort::Quick => 15,
        Effort::Full => 101,
    };
    let mut rows = against_kernel(rounds);
    rows.push(two_threads(rounds).unwrap_or_else(|error| {
        Outcome::skipped("20", "two threads, different files", format!("{error:#}"))
    }));
    rows
}

fn against_kernel(rounds: usize) -> Vec<Outcome> {
    let (mut peers, mut lacking) = (Vec::new(), Vec::new());
    // Held until all is measured.
    let mut mounts = Vec::new();
    for kind in Kind::ALL {
        let mounted = Mount::new(kind, 512 << 20, Medium::Memory);
        match mounted.and_then(|mount| Ok((kernel_files(&mount)?, mount))) {
            Ok((files, mount)) => {
                peers.extend(files);
                mounts.push(mount);
            }
            Err(error) => lacking.push(format!("{}: {error:#}", kind.name())),
        }
    }
    for what in &lacking {
        println!("NOT COMPARED WITH {what}");
    }
    let ours = match Cached::new(1, LARGE as u64) {
        Ok(ours) => ours,
        Err(error) => {
            let skip = |work: &Work| Outcome::skipped(work.id, work.name, format!("{error:#}"));
            return WORKS.iter().map(skip).collect();
        }
    };
    let measured = WORKS.iter().map(|work| {
        if peers.is_empty() {
            return Outcome::skipped(work.id, work.name, lacking.join("; "));
        }
        let file = &ours.files[0];
        let paired = pinned(0, || {
            let peers = peers.iter().map(|(name, file)| {
                let write = writes(work, |at, bytes| file.write_all_at(bytes, at).is_ok());
                Peer::new(name, write)
            });
            let own = writes(work, |at, bytes| file.write_at(at, bytes).is_ok());
            against_best(rounds, own, peers.collect())
        });
        Row::of_times(work.id, work.name, Bar::goal(work.goal), paired).into()
    });
    let measured = measured.collect();
    drop(peers);
    measured
}

/// A file with small folios, and one with large ones where the file system has them.
fn kernel_files(mount: &Mount) -> Result<Vec<(String, File)>> {
    [(SMALL, "4 KiB"), (LARGE, "2 MiB")]
        .into_iter()
        .map(|(call, shown)| {
            let path = mount.root().join(shown.replace(' ', ""));
            let file = file_written_by(&path, FILE_BYTES, call)?;
            let kind = mount.kind().name();
            Ok((format!("pwrite, {kind}, written by {shown}"), file))
        })
        .collect()
}

/// What makes a batch of writes and answers nanoseconds a write.
fn writes<'a>(
    work: &Work,
    mut write: impl FnMut(u64, &[u8]) -> bool + 'a,
) -> impl FnMut() -> f64 + 'a {
    let bytes = vec![0xa5; work.len];
    let places = work.places;
    let mut number = numbers(11);
    let room = FILE_BYTES - work.len as u64;
    move || {
        time(BATCH, || {
            let at = match places {
                Places::Same => 1024,
                Places::Random => number() % room,
            };
            assert!(write(at, &bytes), "a write failed");
        })
    }
}

/// Files of a cache, all of it cached.
pub(crate) struct Cached {
    pub(crate) files: Vec<Handle>,
    _folder: TempDir,
}

impl Cached {
    /// So many files in folios of this size.
    pub(crate) fn new(files: u64, folio_bytes: u64) -> Result<Self> {
        let folder = TempDir::new()?;
        let mut config = Config::new(BlockSize::new(BLOCK).context("a block")?)
            .with_cache_bytes(LenBytes::new(8 * files * FILE_BYTES));
        config.folio_bytes_max = LenBytes::new(folio_bytes);
        let mut mapping = Identity::new();
        let mut devices = Vec::new();
        for id in 0..files {
            let options = FileOptions {
                missing: Missing::Create,
                ..FileOptions::default()
            };
            devices.push(FileDevice::open(
                folder.path().join(id.to_string()),
                options,
            )?);
            mapping.add(FileId(id), FileOffset::ZERO);
        }
        let cache = PageCache::new(Setup::new(config), mapping, Files(devices))?;
        let data = vec![0x5a; LARGE];
        let files = (0..files).map(|id| {
            let file = cache.open(FileId(id), FileOffset::ZERO)?;
            for at in (0..FILE_BYTES).step_by(LARGE) {
                file.write_at(at, &data).map_err(|(_, refusal)| refusal)?;
            }
            file.sync()?;
            Ok(file)
        });
        Ok(Self {
            files: files.collect::<Result<_>>()?,
            _folder: folder,
        })
    }
}

/// Writes a second of two threads with a file each, in those of one.
fn two_threads(rounds: usize) -> Result<Outcome> {
    let name = "two threads, 1 KiB overwrites of different files";
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Ok(Outcome::skipped("20", name, "there is one core"));
    }
    let cached = Cached::new(2, LARGE as u64)?;
    let write = |file: &Handle| {
        for _ in 0..THREAD_BATCH {
            let written = file.write_at(1024, &[0xa5; 1024]);
            assert!(written.is_ok(), "a write failed");
        }
    };
    let [one, other] = cached.files.as_slice() else {
        return Ok(Outcome::skipped("20", name, "no two files"));
    };
    let alone = || pinned(0, || time(1, || write(one)));
    let both = || {
        let start = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| pinned(0, || write(one)));
            scope.spawn(|| pinned(1, || write(other)));
        });
        start.elapsed().as_secs_f64() * 1e9
    };
    let mut paired = pair(rounds, both, "one thread", alone);
    paired.ratio *= 2.0;
    let per_write = f64::from(THREAD_BATCH);
    paired.ours /= 2.0 * per_write;
    paired.peer /= per_write;
    Ok(Row::of_times("20", name, Bar::goal(1.8), paired).into())
}
