//! What a user of a page cache may see: now, and after a crash.
//!
//! A [`Model`] holds a byte vector for each file, and what a crash may leave of
//! it. [`Op`]s come from a fuzzer's bytes, in places near the end of the file and
//! the edges of blocks; [`run`] does them to a [`Subject`] and to the model and
//! compares. The model knows no cache, no device and no order of writeback, so
//! it cannot share their bugs.

mod op;
mod subject;

pub use op::{Call, FileIndex, Len, Op, Place};
pub use subject::{Refusals, Subject, Summary, run};

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use crate::seed;

/// Sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelGeometry {
    /// Files; not zero.
    pub files: usize,
    /// Bytes that reach the device whole or not at all; not zero. Smaller ones
    /// allow more after a crash.
    pub unit: usize,
    /// The largest file; calls are cut to it.
    pub size_max: usize,
}

impl ModelGeometry {
    /// Two files of up to 16 blocks of 512 bytes: small enough that operations
    /// meet.
    pub const TINY: Self = Self {
        files: 2,
        unit: 512,
        size_max: 16 * 512,
    };
}

/// What reads answer, and what a crash may leave.
///
/// **Invariant**: a crash may leave of each unit the content that was made
/// durable last, or one it has had since; the same of the size. What a sync
/// that succeeded covered cannot be older than its beginning (C4).
#[derive(Clone, Debug)]
pub struct Model {
    geometry: ModelGeometry,
    files: Vec<File>,
    /// Numbers every change.
    now: u64,
}

/// A place where what was seen may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The file.
    pub file: usize,
    /// The byte, or the size if that is what differs.
    pub offset: u64,
    /// What was seen and what may be.
    pub message: String,
}

/// A sync that has begun: what it covers and since when.
#[derive(Clone, Debug)]
#[must_use]
pub struct SyncBegun {
    file: usize,
    /// Part of the file, or all with its size.
    range: Option<Range<usize>>,
    begun: u64,
}

#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    /// What a crash may leave as size, oldest first; empty as if it held zero.
    sizes: Vec<(u64, usize)>,
    /// The same of the content of each unit; those that are not here are zeros.
    units: BTreeMap<usize, Vec<(u64, Vec<u8>)>>,
}

impl Model {
    /// Empty files, durably.
    #[must_use]
    pub fn new(geometry: ModelGeometry) -> Self {
        let geometry = ModelGeometry {
            files: geometry.files.max(1),
            unit: geometry.unit.max(1),
            ..geometry
        };
        Self {
            geometry,
            files: vec![File::default(); geometry.files],
            now: 0,
        }
    }

    /// Sizes of the model.
    #[must_use]
    pub fn geometry(&self) -> ModelGeometry {
        self.geometry
    }

    /// The bytes of a file, as reads answer them; none where there is no such
    /// file.
    #[must_use]
    pub fn bytes(&self, file: usize) -> &[u8] {
        self.files.get(file).map_or(&[], |file| &file.bytes)
    }

    /// What a read of `len` bytes at `offset` answers: short at the end (C1).
    #[must_use]
    pub fn read(&self, file: usize, offset: usize, len: usize) -> &[u8] {
        let bytes = self.bytes(file);
        let end = offset.saturating_add(len).min(bytes.len());
        bytes.get(offset..end).unwrap_or_default()
    }

    /// Whether a read answered what it must.
    pub fn check_read(&self, file: usize, offset: usize, len: usize, seen: &[u8]) -> Checked {
        let expected = self.read(file, offset, len);
        let differing = seen.iter().zip(expected).position(|(a, b)| a != b);
        if let Some(place) = differing {
            let (seen, expected) = (seen[place], expected[place]);
            let message = format!("a read answers {seen:#04x}, written was {expected:#04x}");
            return Err(mismatch(file, offset.saturating_add(place), message));
        }
        if seen.len() == expected.len() {
            return Ok(());
        }
        let (seen, expected) = (seen.len(), expected.len());
        let message = format!("a read of {len} bytes answers {seen}, not {expected}");
        Err(mismatch(file, offset, message))
    }

    /// `bytes` were written at `offset`. What passes the largest size has no
    /// place and is left out, as by everything here.
    pub fn write(&mut self, file: usize, offset: usize, bytes: &[u8]) {
        let max = self.geometry.size_max;
        let end = offset.saturating_add(bytes.len()).min(max);
        if end <= offset {
            return;
        }
        self.change(file, offset..end, |content| {
            if content.len() < end {
                content.resize(end, 0);
            }
            content[offset..end].copy_from_slice(&bytes[..end - offset]);
        });
    }

    /// The file has this size now; what is new is zeros.
    pub fn resize(&mut self, file: usize, size: usize) {
        let size = size.min(self.geometry.size_max);
        let old = self.bytes(file).len();
        let changed = size..old.max(size);
        self.change(file, changed, |content| content.resize(size, 0));
    }

    /// These bytes, as far as the file has them, are zeros now.
    pub fn punch(&mut self, file: usize, offset: usize, len: usize) {
        let end = offset.saturating_add(len).min(self.bytes(file).len());
        if offset < end {
            self.change(file, offset..end, |content| content[offset..end].fill(0));
        }
    }

    /// A sync of a file begins. Writes from now on it need not cover (C4).
    pub fn sync_begin(&mut self, file: usize) -> SyncBegun {
        SyncBegun {
            file,
            range: None,
            begun: self.now,
        }
    }

    /// A sync of part of a file begins. It makes durable the units that lie
    /// inside, up to the end of the file, and a size that reaches them.
    pub fn sync_range_begin(&mut self, file: usize, offset: usize, len: usize) -> SyncBegun {
        SyncBegun {
            file,
            range: Some(offset..offset.saturating_add(len)),
            begun: self.now,
        }
    }

    /// A sync has ended well. One that failed promises nothing, and is dropped.
    pub fn sync_end(&mut self, sync: SyncBegun) {
        let unit = self.geometry.unit;
        let Some(file) = self.files.get_mut(sync.file) else {
            return;
        };
        let size = at(&file.sizes, sync.begun).copied().unwrap_or(0);
        for (index, versions) in &mut file.units {
            let start = index * unit;
            let end = (start + unit).min(size);
            let range = sync.range.as_ref();
            if range.is_none_or(|range| range.start <= start && end <= range.end) {
                forget_before(versions, sync.begun);
            }
        }
        match sync.range {
            None => forget_before(&mut file.sizes, sync.begun),
            Some(range) => {
                let reached = range.end.min(size);
                let begun = sync.begun;
                let is_kept = |(since, size): &(u64, usize)| *since > begun || *size >= reached;
                if range.start < reached && !file.sizes.is_empty() {
                    file.sizes.retain(is_kept);
                }
            }
        }
    }

    /// A file was found to hold `seen` after a crash: whether it may.
    pub fn crash_allows(&self, file: usize, seen: &[u8]) -> Checked {
        let Some(content) = self.files.get(file) else {
            let message = "there is no such file".to_owned();
            return Err(mismatch(file, 0, message));
        };
        let mut sizes: Vec<_> = content.sizes.iter().map(|(_, size)| *size).collect();
        if sizes.is_empty() {
            sizes.push(0);
        }
        if !sizes.contains(&seen.len()) {
            let message = format!("size after a crash; it may be one of {sizes:?}");
            return Err(mismatch(file, seen.len(), message));
        }
        self.crash_allows_at(file, 0, seen)
    }

    /// The same for part of a file, from a multiple of the unit on, and
    /// whatever the size: for a device that holds the file without one.
    pub fn crash_allows_at(&self, file: usize, offset: usize, seen: &[u8]) -> Checked {
        let unit = self.geometry.unit;
        for (nth, seen) in seen.chunks(unit).enumerate() {
            let index = offset / unit + nth;
            let zeros = [(0, vec![0; unit])];
            let versions = self.files.get(file).and_then(|file| file.units.get(&index));
            let versions = versions.map_or(&zeros[..], |versions| versions);
            if versions.iter().any(|(_, bytes)| bytes.starts_with(seen)) {
                continue;
            }
            let agreeing = |(_, bytes): &(u64, Vec<u8>)| {
                let differing = bytes.iter().zip(seen).position(|(a, b)| a != b);
                differing.unwrap_or(0)
            };
            let place = versions.iter().map(agreeing).max().unwrap_or(0);
            let message = format!(
                "{:#04x} after a crash, in a unit of {unit} bytes that equals none of the {} \
                 contents it had since the last sync",
                seen[place],
                versions.len()
            );
            return Err(mismatch(file, index * unit + place, message));
        }
        Ok(())
    }

    /// The machine crashed and `seen` is what the file holds now, durably.
    pub fn recover(&mut self, file: usize, seen: &[u8]) -> Checked {
        self.crash_allows(file, seen)?;
        let unit = self.geometry.unit;
        if let Some(file) = self.files.get_mut(file) {
            *file = File {
                bytes: seen.to_vec(),
                sizes: vec![(self.now, seen.len())],
                units: BTreeMap::new(),
            };
            for index in 0..seen.len().div_ceil(unit) {
                let version = (self.now, file.unit(index, unit));
                file.units.insert(index, vec![version]);
            }
        }
        Ok(())
    }

    /// How many states a crash may leave of a file, held at 2^64 - 1.
    #[must_use]
    pub fn crash_states(&self, file: usize) -> u64 {
        self.files.get(file).map_or(0, |file| {
            let units = file.units.values().map(Vec::len);
            let choices = units.chain([file.sizes.len().max(1)]);
            choices.fold(1, |states, count| states.saturating_mul(count as u64))
        })
    }

    /// Changes the content of a file, and notes what a crash may find.
    fn change(&mut self, file: usize, changed: Range<usize>, edit: impl FnOnce(&mut Vec<u8>)) {
        let unit = self.geometry.unit;
        let Some(file) = self.files.get_mut(file) else {
            return;
        };
        if file.sizes.is_empty() {
            file.sizes.push((0, file.bytes.len()));
        }
        let old_size = file.bytes.len();
        self.now += 1;
        edit(&mut file.bytes);
        if file.bytes.len() != old_size {
            file.sizes.push((self.now, file.bytes.len()));
        }
        if changed.is_empty() {
            return;
        }
        for index in changed.start / unit..changed.end.div_ceil(unit) {
            let version = (self.now, file.unit(index, unit));
            let versions = file.units.entry(index);
            // Nobody wrote to it yet: zeros.
            let versions = versions.or_insert_with(|| vec![(0, vec![0; unit])]);
            versions.push(version);
        }
    }
}

/// Whether something seen may be.
pub type Checked = Result<(), Mismatch>;

impl File {
    /// The bytes of a unit, with zeros past the end of the file.
    fn unit(&self, index: usize, unit: usize) -> Vec<u8> {
        let start = index * unit;
        let end = (start + unit).min(self.bytes.len());
        let mut bytes = self.bytes.get(start..end).unwrap_or_default().to_vec();
        bytes.resize(unit, 0);
        bytes
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            offset,
            message,
        } = self;
        write!(f, "file {file} at {offset}: {message}")
    }
}

impl std::error::Error for Mismatch {}

/// `len` bytes that a write of `fill` puts at `offset`. They tell the place and
/// the write, so that nothing which was moved or is old passes, and none is
/// zero, so that no hole does.
#[must_use]
pub fn pattern(fill: u8, offset: usize, len: usize) -> Vec<u8> {
    let byte = |place: usize| {
        let mut state = (place as u64) << 8 | u64::from(fill);
        seed::next(&mut state).to_le_bytes()[0].max(1)
    };
    (offset..offset.saturating_add(len)).map(byte).collect()
}

/// What was in effect at a time, of versions in order.
fn at<T>(versions: &[(u64, T)], time: u64) -> Option<&T> {
    let before = versions.iter().take_while(|(since, _)| *since <= time);
    before.last().map(|(_, version)| version)
}

/// Drops the versions that were replaced at this time or before.
fn forget_before<T>(versions: &mut Vec<(u64, T)>, time: u64) {
    let before = versions.iter().take_while(|(since, _)| *since <= time);
    let replaced = before.count().saturating_sub(1);
    versions.drain(..replaced);
}

fn mismatch(file: usize, offset: usize, message: String) -> Mismatch {
    Mismatch {
        file,
        offset: offset as u64,
        message,
    }
}

#[cfg(test)]
mod tests;
