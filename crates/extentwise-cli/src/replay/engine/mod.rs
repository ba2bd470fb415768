//! A page cache around the core, for one thread: buffered reads and writes of
//! many files, delayed allocation, writeback, bounded memory.

mod cache;
mod device;
mod lru;
mod memory;
mod writeback;

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Result, bail};
use extentwise_core::geometry::{FileOffset, FileRange};
use extentwise_core::writeback::Stride;

use super::Mode;
use super::geometry::Geometry;
use super::pattern;
use super::report::Work;
use cache::{FileCache, Usage};
use device::{DeviceFile, Devices};
use lru::Lru;

/// How much memory the cache may take, in bytes.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Dirty bytes at which everything is written back.
    dirty_max: u64,
    /// Memory of the cache above which clean folios leave it, oldest first...
    cached_max: u64,
    /// ...until it is down to this.
    cached_kept: u64,
}

impl Limits {
    const USUAL: Self = Self {
        dirty_max: 64 << 20,
        cached_max: 512 << 20,
        cached_kept: 448 << 20,
    };
}

/// What a write puts into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// The pattern of the write with this number.
    Pattern(u64),
    /// Zeros.
    Zeros,
}

impl Fill {
    fn put(self, bytes: &mut [u8], offset: u64) {
        match self {
            Self::Pattern(write) => pattern::fill(bytes, offset, write),
            Self::Zeros => bytes.fill(0),
        }
    }
}

/// The cache of all files of a replay.
///
/// **Invariant**: `usage` is the sum of the files' own; between calls it is
/// below the limits, give or take one folio.
pub(crate) struct Engine {
    devices: Devices,
    caches: Vec<FileCache>,
    stride: Stride,
    lru: Lru,
    usage: Usage,
    limits: Limits,
    work: Work,
}

impl Engine {
    /// A cache of the files at `paths`, which are empty.
    pub(crate) fn new(paths: &[PathBuf], geometry: Geometry, mode: Mode) -> Result<Self> {
        let caches = paths.iter().map(|_| FileCache::new(geometry));
        Ok(Self {
            devices: Devices::new(paths),
            caches: caches.collect::<Result<_>>()?,
            stride: match mode {
                Mode::Extent => Stride::Extent,
                Mode::Block => Stride::Block,
            },
            lru: Lru::default(),
            usage: Usage::default(),
            limits: Limits::USUAL,
            work: Work::new(),
        })
    }

    /// Writes `range` of a file into the cache; it grows if the range ends past
    /// its size.
    pub(crate) fn write(&mut self, file: usize, range: Range<u64>, bytes: Fill) -> Result<()> {
        let mut start = range.start;
        while start < range.end {
            let part = self.part_in_folio(file, start..range.end)?;
            let committed = self.on_file(file, |cache, device, work| {
                cache.write(part, bytes, device, work)
            })?;
            if committed == 0 {
                bail!("write {part}: nothing was committed");
            }
            start += committed;
            self.used(file, part)?;
        }
        Ok(())
    }

    /// Reads `range`, which must lie in the file, and shows it to `see`, piece
    /// by piece with its offset.
    pub(crate) fn read(
        &mut self,
        file: usize,
        range: Range<u64>,
        see: impl Fn(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let mut start = range.start;
        while start < range.end {
            let part = self.part_in_folio(file, start..range.end)?;
            self.on_file(file, |cache, device, work| {
                let mut pieces = cache.read(part, device, work)?;
                pieces.try_for_each(|(offset, bytes)| see(bytes, offset))
            })?;
            start = part.end().get();
            self.used(file, part)?;
        }
        Ok(())
    }

    /// Makes `range`, which must lie in the file, read as zero. Whole blocks
    /// leave the cache and the device; zeros are written into the rest (W13).
    pub(crate) fn trim(&mut self, file: usize, range: Range<u64>) -> Result<()> {
        let block_size = self.caches[file].block_size;
        let first = block_size.ceil(range.start).min(range.end);
        let last = block_size.floor(range.end).max(first);
        self.write(file, range.start..first, Fill::Zeros)?;
        if first < last {
            let whole = file_range(first..last)?;
            self.on_file(file, |cache, device, work| cache.punch(whole, device, work))?;
        }
        self.write(file, last..range.end, Fill::Zeros)
    }

    /// Writes a file back and makes it durable, its size too.
    pub(crate) fn sync(&mut self, file: usize) -> Result<()> {
        self.write_back(file)?;
        self.on_file(file, |cache, device, _| {
            // A tail that was trimmed before it was ever written.
            if cache.recorded_size < cache.i_size {
                device.set_len(cache.i_size.get())?;
                cache.recorded_size = cache.i_size;
            }
            device.sync()
        })
    }

    /// Drops the cache; answers what was done.
    pub(crate) fn into_work(self) -> Work {
        self.work
    }

    fn write_back(&mut self, file: usize) -> Result<()> {
        let stride = self.stride;
        self.on_file(file, |cache, device, work| {
            writeback::write_back(cache, device, stride, work)
        })
    }

    fn write_back_all(&mut self) -> Result<()> {
        for file in 0..self.caches.len() {
            if self.caches[file].usage().dirty > 0 {
                self.write_back(file)?;
            }
        }
        Ok(())
    }

    /// Notes the use of a folio and keeps the limits.
    fn used(&mut self, file: usize, part: FileRange) -> Result<()> {
        let pos = self.caches[file].folio_pos(part.start().get());
        self.lru.touch((file, pos));
        if self.usage.dirty >= self.limits.dirty_max {
            self.write_back_all()?;
        }
        if self.usage.cached > self.limits.cached_max {
            self.evict();
            if self.usage.cached > self.limits.cached_kept {
                self.write_back_all()?;
                self.evict();
            }
        }
        Ok(())
    }

    /// Drops clean folios, those used longest ago first.
    fn evict(&mut self) {
        let mut tick = 0;
        while self.usage.cached > self.limits.cached_kept
            && let Some((next, (file, pos))) = self.lru.next_after(tick)
        {
            tick = next;
            let cache = &mut self.caches[file];
            let before = cache.usage();
            if cache.evict(pos) {
                self.lru.remove((file, pos));
            }
            self.usage = self.usage.changed(before, cache.usage());
        }
    }

    /// Works on one file and its device, and keeps the sums.
    fn on_file<R>(
        &mut self,
        file: usize,
        run: impl FnOnce(&mut FileCache, &DeviceFile, &mut Work) -> Result<R>,
    ) -> Result<R> {
        let device = self.devices.open(file)?;
        let cache = &mut self.caches[file];
        let before = cache.usage();
        let result = run(cache, device, &mut self.work);
        self.usage = self.usage.changed(before, cache.usage());
        result
    }

    /// The front part of `range`, as far as it lies in one folio.
    fn part_in_folio(&self, file: usize, range: Range<u64>) -> Result<FileRange> {
        let cache = &self.caches[file];
        let folio_end = cache.folio_pos(range.start) + cache.geometry.folio_size();
        file_range(range.start..range.end.min(folio_end))
    }
}

fn file_range(range: Range<u64>) -> Result<FileRange> {
    let ends = (FileOffset::new(range.start), FileOffset::new(range.end));
    match FileRange::new(ends.0, ends.1) {
        Some(range) => Ok(range),
        None => bail!("the range {range:?} is crossed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::model::Model;

    const TIGHT: Limits = Limits {
        dirty_max: 16 << 10,
        cached_max: 64 << 10,
        cached_kept: 48 << 10,
    };

    /// Numbers from a fixed seed, below the limit asked for.
    fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
        move |limit| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % limit
        }
    }

    #[test]
    fn a_cache_in_tight_memory_loses_nothing_and_stays_in_its_limits() {
        for (seed, mode) in (1..8).flat_map(|seed| [(seed, Mode::Extent), (seed, Mode::Block)]) {
            let folder = tempfile::tempdir().expect("a folder");
            let paths = ["a", "b"].map(|name| folder.path().join(name)).to_vec();
            for path in &paths {
                std::fs::write(path, "").expect("an empty file");
            }
            let geometry = Geometry::new(512, 4096, 2048).expect("sound");
            let mut engine = Engine::new(&paths, geometry, mode).expect("an engine");
            engine.limits = TIGHT;
            let mut models = [Model::default(), Model::default()];
            let mut number = numbers(seed);
            for write in 1..300 {
                let file = number(2) as usize;
                let start = number(200_000);
                let range = start..start + number(6_000);
                let inside = models[file].clip(range.clone());
                match number(6) {
                    0 => {
                        let see = |bytes: &[u8], offset| {
                            assert_eq!(models[file].mismatch(bytes, offset), None, "seed {seed}");
                            Ok(())
                        };
                        engine.read(file, inside, see).expect("reads");
                    }
                    1 => {
                        engine.trim(file, inside.clone()).expect("trims");
                        models[file].trim(inside);
                    }
                    2 => engine.sync(file).expect("syncs"),
                    _ => {
                        engine
                            .write(file, range.clone(), Fill::Pattern(write))
                            .expect("writes");
                        models[file].write(range, write);
                    }
                }
                assert!(engine.usage.dirty <= TIGHT.dirty_max + 4096, "seed {seed}");
                assert!(
                    engine.usage.cached <= TIGHT.cached_max + 8192,
                    "seed {seed}"
                );
                let sum = |of: fn(Usage) -> u64| -> u64 {
                    engine.caches.iter().map(|cache| of(cache.usage())).sum()
                };
                assert_eq!(engine.usage.dirty, sum(|usage| usage.dirty));
                assert_eq!(engine.usage.cached, sum(|usage| usage.cached));
            }
            for (file, path) in paths.iter().enumerate() {
                engine.sync(file).expect("syncs");
                assert_eq!(engine.caches[file].usage().dirty, 0);
                let bytes = std::fs::read(path).expect("the file");
                assert_eq!(bytes.len() as u64, models[file].len());
                assert_eq!(models[file].mismatch(&bytes, 0), None, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_write_of_half_a_block_reads_that_block_only_if_the_device_has_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f");
        std::fs::write(&path, "").expect("an empty file");
        let geometry = Geometry::new(4096, 65_536, 65_536).expect("sound");
        let mut engine =
            Engine::new(std::slice::from_ref(&path), geometry, Mode::Extent).expect("an engine");
        engine.limits = Limits {
            cached_max: 0,
            cached_kept: 0,
            ..TIGHT
        };
        // Each write is written back and evicted before the next.
        engine.write(0, 0..4096, Fill::Pattern(1)).expect("writes");
        engine.write(0, 100..200, Fill::Pattern(2)).expect("writes");
        engine
            .write(0, 9000..9001, Fill::Pattern(3))
            .expect("writes");
        engine.sync(0).expect("syncs");
        let mut model = Model::default();
        model.write(0..4096, 1);
        model.write(100..200, 2);
        model.write(9000..9001, 3);
        let bytes = std::fs::read(&path).expect("the file");
        assert_eq!((bytes.len(), model.mismatch(&bytes, 0)), (9001, None));
        assert_eq!(engine.usage, Usage::default());
        assert_eq!(engine.work.dirtied_bytes, 3 * 4096);
        assert_eq!(engine.work.device_bytes, 2 * 4096 + 9001 - 8192);
    }
}
