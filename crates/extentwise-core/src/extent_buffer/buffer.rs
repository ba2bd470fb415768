//! An extent buffer: checked access to one metadata block.

use super::BlockMemory;
use bitflags::bitflags;
use core::cmp::Ordering;
use core::fmt;

/// Why an access was refused; nothing was touched, the destination neither (B2,
/// B10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferError {
    /// The access leaves the block.
    OutOfRange {
        /// First byte of the access.
        offset: u64,
        /// Bytes of the access.
        len: u64,
        /// Bytes in the block.
        block_len: usize,
    },
    /// The block's content has not been read and was not made fresh: what is
    /// written around would be garbage (B10).
    NotUptodate,
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange {
                offset,
                len,
                block_len,
            } => write!(
                f,
                "{len} bytes at offset {offset} leave a block of {block_len} bytes"
            ),
            Self::NotUptodate => f.write_str("the block is not uptodate"),
        }
    }
}

impl core::error::Error for BufferError {}

bitflags! {
    /// The state of an extent buffer. It belongs to the buffer, not to the
    /// pages, which several buffers may share (B4).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct BufferFlags: u8 {
        /// Its bytes are the block's content, read or made fresh.
        const UPTODATE = 1 << 0;
        /// It was changed since it was last written.
        const DIRTY = 1 << 1;
        /// It is being written.
        const WRITEBACK = 1 << 2;
        /// A transaction still changes it: background writeback skips it, a
        /// sync does not (B8).
        const HELD = 1 << 3;
    }
}

/// An integer that metadata holds in little-endian order.
pub trait LittleEndian: Copy {
    /// Its bytes: an array.
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + Default;

    /// Its bytes, least first.
    fn to_bytes(self) -> Self::Bytes;

    /// The integer of these bytes.
    fn from_bytes(bytes: Self::Bytes) -> Self;
}

macro_rules! little_endian {
    ($($integer:ty)*) => {$(
        impl LittleEndian for $integer {
            type Bytes = [u8; size_of::<$integer>()];

            #[inline]
            fn to_bytes(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline]
            fn from_bytes(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }
        }
    )*};
}

little_endian!(u8 u16 u32 u64);

/// One metadata block at a logical address.
///
/// **Invariant**: every access is checked against the length of the block,
/// without overflow, reads and writes alike (B2); a refused access touches
/// nothing. On contiguous memory an access is the slice operation; on pages it
/// goes page by page.
#[derive(Clone, Debug)]
pub struct ExtentBuffer<M> {
    start: u64,
    flags: BufferFlags,
    pub(super) memory: M,
}

impl<M: BlockMemory> ExtentBuffer<M> {
    /// The block at logical address `start`, not read yet: it must be filled by
    /// [`fill_from_device`](Self::fill_from_device) before it is written (B10).
    pub const fn unread(start: u64, memory: M) -> Self {
        Self {
            start,
            flags: BufferFlags::empty(),
            memory,
        }
    }

    /// A new block, zeroed and so uptodate (B10).
    pub fn zeroed(start: u64, memory: M) -> Self {
        let mut buffer = Self::unread(start, memory);
        buffer.flags = BufferFlags::UPTODATE;
        let all = 0..buffer.memory.len();
        buffer.each_mut(all, |chunk, _| chunk.fill(0));
        buffer
    }

    /// A new block with the bytes of `source`, uptodate whatever `source` is.
    /// The lengths must be equal.
    pub fn cloned<N: BlockMemory>(
        start: u64,
        memory: M,
        source: &ExtentBuffer<N>,
    ) -> Result<Self, BufferError> {
        let mut buffer = Self::unread(start, memory);
        buffer.flags = BufferFlags::UPTODATE;
        buffer.copy_whole(source)?;
        buffer.flags = BufferFlags::UPTODATE;
        Ok(buffer)
    }

    /// Logical address of the block.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// Bytes in the block.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether the block holds no byte.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Its state.
    pub const fn flags(&self) -> BufferFlags {
        self.flags
    }

    /// Sets and clears state; `UPTODATE` is only ever *cleared* here, for only
    /// reading or making the block fresh makes it so (B10).
    pub fn change_flags(&mut self, set: BufferFlags, clear: BufferFlags) {
        self.flags |= set.difference(BufferFlags::UPTODATE);
        self.flags -= clear;
    }

    /// Whether writeback takes the block now: it is dirty, not in writeback,
    /// and not held unless a sync asks (B8).
    pub const fn wants_writeback(&self, for_sync: ForSync) -> bool {
        let held = self.flags.contains(BufferFlags::HELD) && matches!(for_sync, ForSync::No);
        self.flags.contains(BufferFlags::DIRTY)
            && !self.flags.contains(BufferFlags::WRITEBACK)
            && !held
    }

    /// The memory of the block.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// Gives the memory back.
    pub fn into_memory(self) -> M {
        self.memory
    }

    /// Calls `read` with each chunk of the block, in order, to fill it from the
    /// device; the block is uptodate if all of them succeed.
    pub fn fill_from_device<E>(
        &mut self,
        mut read: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.flags.remove(BufferFlags::UPTODATE);
        let mut at = 0;
        while at < self.memory.len() {
            let chunk = self.memory.chunk_mut(at);
            if chunk.is_empty() {
                break;
            }
            let len = chunk.len();
            read(chunk)?;
            at += len;
        }
        self.flags.insert(BufferFlags::UPTODATE);
        Ok(())
    }

    /// Copies bytes from `offset` on into `into`.
    #[inline]
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BufferError> {
        let range = self.range(offset, into.len() as u64)?;
        let first = range.start;
        self.each(range, |chunk, at| {
            if let Some(part) = into.get_mut(at - first..at - first + chunk.len()) {
                part.copy_from_slice(chunk);
            }
        });
        Ok(())
    }

    /// Copies `bytes` into the block at `offset`.
    #[inline]
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BufferError> {
        let range = self.writable_range(offset, bytes.len() as u64)?;
        let first = range.start;
        self.each_mut(range, |chunk, at| {
            if let Some(part) = bytes.get(at - first..at - first + chunk.len()) {
                chunk.copy_from_slice(part);
            }
        });
        Ok(())
    }

    /// Compares the bytes at `offset` with `bytes`, as memcmp does.
    #[inline]
    pub fn compare(&self, offset: u64, bytes: &[u8]) -> Result<Ordering, BufferError> {
        let range = self.range(offset, bytes.len() as u64)?;
        let first = range.start;
        let mut order = Ordering::Equal;
        self.each(range, |chunk, at| {
            let part = bytes.get(at - first..at - first + chunk.len());
            order = order.then_with(|| chunk.cmp(part.unwrap_or_default()));
        });
        Ok(order)
    }

    /// Sets `len` bytes from `offset` on to `byte`.
    #[inline]
    pub fn fill(&mut self, offset: u64, len: u64, byte: u8) -> Result<(), BufferError> {
        let range = self.writable_range(offset, len)?;
        self.each_mut(range, |chunk, _| chunk.fill(byte));
        Ok(())
    }

    /// Sets `len` bytes from `offset` on to zero.
    #[inline]
    pub fn zero(&mut self, offset: u64, len: u64) -> Result<(), BufferError> {
        self.fill(offset, len, 0)
    }

    /// Copies `len` bytes inside the block, as memmove does: the ranges may
    /// overlap (B3).
    #[inline]
    pub fn copy_within(&mut self, dst: u64, src: u64, len: u64) -> Result<(), BufferError> {
        // In one piece, one check does for both ranges: they are equally long.
        if self.flags.contains(BufferFlags::UPTODATE)
            && let (Ok(to), Ok(from), Ok(count)) = (
                usize::try_from(dst),
                usize::try_from(src),
                usize::try_from(len),
            )
            && let Some(bytes) = self.memory.whole_mut()
            && let Some(rest) = bytes.len().checked_sub(count)
            && to.max(from) <= rest
        {
            self.flags.insert(BufferFlags::DIRTY);
            bytes.copy_within(from..from + count, to);
            return Ok(());
        }
        self.copy_by_chunks(dst, src, len)
    }

    /// As [`copy_within`](Self::copy_within), whatever the memory; or says what is
    /// wrong. Apart, so that the one above is small where it is used.
    #[inline(never)]
    fn copy_by_chunks(&mut self, dst: u64, src: u64, len: u64) -> Result<(), BufferError> {
        let from = self.range(src, len)?;
        let to = self.writable_range(dst, len)?;
        let (dst, src, len) = (to.start, from.start, from.end - from.start);
        self.memory.move_range(dst, src, len);
        Ok(())
    }

    /// Copies `len` bytes from another buffer; both ranges are checked (B3).
    #[inline]
    pub fn copy_from<N: BlockMemory>(
        &mut self,
        dst: u64,
        source: &ExtentBuffer<N>,
        src: u64,
        len: u64,
    ) -> Result<(), BufferError> {
        let from = source.range(src, len)?;
        let to = self.writable_range(dst, len)?;
        let first = from.start;
        source.each(from, |chunk, at| {
            let mut rest = chunk;
            let mut into = to.start + (at - first);
            while !rest.is_empty() {
                let target = self.memory.chunk_mut(into);
                let step = target.len().min(rest.len());
                if step == 0 {
                    return;
                }
                let (now, later) = rest.split_at(step);
                if let Some(target) = target.get_mut(..step) {
                    target.copy_from_slice(now);
                }
                rest = later;
                into += step;
            }
        });
        Ok(())
    }

    /// Copies all bytes of another buffer of the same length.
    pub fn copy_whole<N: BlockMemory>(
        &mut self,
        source: &ExtentBuffer<N>,
    ) -> Result<(), BufferError> {
        let len = self.len() as u64;
        if source.len() != self.len() {
            return Err(self.out_of_range(0, source.len() as u64));
        }
        self.copy_from(0, source, 0, len)
    }

    /// The integer at `offset`, which need not be aligned.
    #[inline]
    pub fn get<T: LittleEndian>(&self, offset: u64) -> Result<T, BufferError> {
        let mut bytes = T::Bytes::default();
        self.read(offset, bytes.as_mut())?;
        Ok(T::from_bytes(bytes))
    }

    /// Sets the integer at `offset`, which need not be aligned.
    #[inline]
    pub fn set<T: LittleEndian>(&mut self, offset: u64, value: T) -> Result<(), BufferError> {
        self.write(offset, value.to_bytes().as_ref())
    }

    /// Checks `[offset, offset + len)` against the block (B2).
    #[inline]
    pub(super) fn range(
        &self,
        offset: u64,
        len: u64,
    ) -> Result<core::ops::Range<usize>, BufferError> {
        let end = offset
            .checked_add(len)
            .and_then(|end| usize::try_from(end).ok());
        match (usize::try_from(offset), end) {
            (Ok(start), Some(end)) if end <= self.memory.len() => Ok(start..end),
            _ => Err(self.out_of_range(offset, len)),
        }
    }

    /// As [`range`](Self::range), for an access that changes bytes: the block
    /// must be uptodate (B10), and is dirty afterwards.
    #[inline]
    pub(super) fn writable_range(
        &mut self,
        offset: u64,
        len: u64,
    ) -> Result<core::ops::Range<usize>, BufferError> {
        let range = self.range(offset, len)?;
        if !self.flags.contains(BufferFlags::UPTODATE) {
            return Err(BufferError::NotUptodate);
        }
        self.flags.insert(BufferFlags::DIRTY);
        Ok(range)
    }

    #[cold]
    fn out_of_range(&self, offset: u64, len: u64) -> BufferError {
        BufferError::OutOfRange {
            offset,
            len,
            block_len: self.memory.len(),
        }
    }

    /// Calls `visit(chunk, offset)` for each contiguous part of a checked range.
    #[inline]
    pub(super) fn each(&self, range: core::ops::Range<usize>, mut visit: impl FnMut(&[u8], usize)) {
        let mut at = range.start;
        while at < range.end {
            let chunk = self.memory.chunk(at);
            let len = chunk.len().min(range.end - at);
            match chunk.get(..len) {
                Some(part) if len > 0 => visit(part, at),
                _ => return,
            }
            at += len;
        }
    }

    /// As [`each`](Self::each), to write.
    #[inline]
    pub(super) fn each_mut(
        &mut self,
        range: core::ops::Range<usize>,
        mut visit: impl FnMut(&mut [u8], usize),
    ) {
        let mut at = range.start;
        while at < range.end {
            let chunk = self.memory.chunk_mut(at);
            let len = chunk.len().min(range.end - at);
            match chunk.get_mut(..len) {
                Some(part) if len > 0 => visit(part, at),
                _ => return,
            }
            at += len;
        }
    }
}

/// Whether writeback is looked for by a sync (B8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForSync {
    /// By background writeback, which leaves held blocks alone.
    No,
    /// By a sync, which takes them too.
    Yes,
}
