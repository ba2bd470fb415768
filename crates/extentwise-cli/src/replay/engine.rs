//! The engine under a replay: each file of the trace is a device of its own.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Error, Result, bail};
use extentwise_engine::{
    BioLimits, BlockSize, Config, FileId, FileOffset, FileRange, HandleId, Identity, LenBytes,
    Refusal, Stride,
};

use super::drive::Drive;
use super::files::Files;
use super::least::LeastWrites;
use super::report::Work;
use super::settings::{DeviceKind, Settings};
use super::{Mode, pattern};

/// The cache of all files of a replay, over the files.
pub(crate) struct Engine {
    drive: Drive,
    handles: Vec<HandleId>,
    least: LeastWrites,
    work: Work,
}

impl Engine {
    /// A cache of the files at `paths`, which are empty.
    pub(crate) fn new(paths: &[PathBuf], settings: &Settings) -> Result<Self> {
        let mut config = Config::new(BlockSize::new(settings.geometry.block_size())?)
            .with_cache_bytes(LenBytes::new(settings.cache_size))
            .with_dirty_bytes(LenBytes::new(settings.dirty_limit));
        config.folio_bytes_max = LenBytes::new(settings.geometry.folio_size());
        config.extent_bytes_max = LenBytes::new(settings.geometry.max_extent());
        if settings.device != DeviceKind::Uring {
            // One thread writes and writes back: to begin early gains nothing.
            config.dirty_bytes_background = config.dirty_bytes_max;
        }
        config.file_dirty_bytes_max = config.dirty_bytes_max;
        config.bio_limits = BioLimits::UNLIMITED;
        config.policy = settings.policy.into();
        config.stride = match settings.mode {
            Mode::Extent => Stride::Extent,
            Mode::Block => Stride::Block,
        };
        let ids = (0..).take(paths.len()).map(FileId);
        let mut mapping = Identity::new();
        for id in ids.clone() {
            mapping.add(id, FileOffset::ZERO);
        }
        let files = Files::new(paths, settings)?;
        let mut drive = Drive::new(config, mapping, files, settings.device)?;
        let handles: Result<_, Refusal> = ids.map(|id| drive.open(id)).collect();
        Ok(Self {
            drive,
            handles: handles?,
            least: LeastWrites::new(settings),
            work: Work::new(),
        })
    }

    /// Writes `range` of a file into the cache, with the pattern of the write of
    /// this number; the file grows if the range ends past its size.
    pub(crate) fn write(&mut self, file: usize, range: Range<u64>, write: u64) -> Result<()> {
        self.least.write(file, range.clone());
        let start = range.start;
        self.timed(file, |drive, handle| {
            let put = |bytes: &mut [u8], into: u64| pattern::fill(bytes, start + into, write);
            let at = FileOffset::new(start);
            drive
                .write_with(handle, at, range.end - start, put)
                .map_err(|(_, refusal)| refusal)
        })
    }

    /// Reads `range`, which must lie in the file, and shows it to `see`, piece
    /// by piece with its offset.
    pub(crate) fn read(
        &mut self,
        file: usize,
        range: Range<u64>,
        see: impl Fn(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let mut seen = Ok(());
        let len = range.end - range.start;
        let read = self.timed(file, |drive, handle| {
            drive.read_with(handle, FileOffset::new(range.start), len, |bytes, into| {
                if seen.is_ok() {
                    seen = see(bytes, range.start + into);
                }
            })
        })?;
        seen?;
        if read != len {
            bail!(
                "read [{}, {}): only {read} bytes came",
                range.start,
                range.end
            );
        }
        Ok(())
    }

    /// Makes `range`, which must lie in the file, read as zero.
    pub(crate) fn trim(&mut self, file: usize, range: Range<u64>) -> Result<()> {
        self.least.trim(file, range.clone());
        let range = FileRange::clamped(FileOffset::new(range.start), FileOffset::new(range.end));
        self.timed(file, |drive, handle| drive.punch(handle, range))
    }

    /// Writes a file back and makes it durable, its size too.
    pub(crate) fn sync(&mut self, file: usize) -> Result<()> {
        self.least.sync(file);
        self.timed(file, Drive::sync)
    }

    /// Drops the cache; answers what was done.
    pub(crate) fn into_work(mut self) -> Work {
        let (counts, transfers) = (self.drive.counts(), self.drive.transfers());
        self.work.folios = counts.folios;
        self.work.folio_passes = counts.passes;
        self.work.dirtied_bytes = counts.dirtied_bytes;
        self.work.ordered_extents = counts.ordered_extents;
        self.work.bios = counts.bios;
        self.work.device_writes = transfers.writes;
        self.work.device_bytes = transfers.write_bytes;
        self.work.least_device_writes = self.least.count();
        self.work
    }

    /// Calls the engine for a file, takes the time where it wrote back, and says
    /// what the operating system answered if it fails.
    fn timed<T>(
        &mut self,
        file: usize,
        call: impl FnOnce(&mut Drive, HandleId) -> Result<T, Refusal>,
    ) -> Result<T> {
        let handle = self.handles.get(file).copied();
        let handle = handle.context("the trace names a file that is not there")?;
        let passes = self.drive.counts().passes;
        let started = Instant::now();
        let result = call(&mut self.drive, handle);
        if self.drive.counts().passes != passes {
            let nanos = started.elapsed().as_nanos();
            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
            self.work.writeback.record(nanos);
        }
        match (result, self.drive.files().take_failure()) {
            (Ok(value), None) => Ok(value),
            (Err(Refusal::Failed(_)) | Ok(_), Some(failure)) => Err(failure),
            (Err(refusal), None) => Err(Error::from(refusal)),
            (Err(refusal), Some(failure)) => Err(failure.context(refusal)),
        }
    }
}
