//! A device with a cache that a power cut loses.

use std::sync::{Arc, Mutex};

use extentwise_device::{Device, DeviceError, DeviceGeometry, DiskByte, LenBytes, WriteCache};

use super::memory::{check_range, gather, read_len, scatter, write_len};
use super::{DISCARDED, Image, SECTOR, locked};

mod crash;

pub use crash::{CrashImage, CrashImages, Fate};

/// A device of memory whose writes are durable after a flush only (C8).
///
/// It limits and refuses what [`MemoryDevice`](super::MemoryDevice) does. What
/// is written since the last flush is kept in pieces of one logical block, of
/// a sector where blocks are smaller; a power cut may lose, keep or tear each
/// of them, in any combination.
///
/// **Invariant**: the durable image with all pieces applied in order is what
/// reads answer.
#[derive(Debug)]
pub struct VolatileDevice {
    geometry: DeviceGeometry,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    durable: Image,
    current: Image,
    unflushed: Vec<Piece>,
}

/// Part of a write that is not durable.
#[derive(Clone, Debug)]
struct Piece {
    at: u64,
    bytes: Arc<[u8]>,
}

impl VolatileDevice {
    /// A device of zeros; its geometry says that its cache is volatile.
    #[must_use]
    pub fn new(geometry: DeviceGeometry) -> Self {
        Self::from_image(geometry, Image::new())
    }

    /// A device that holds these bytes durably.
    #[must_use]
    pub fn from_image(geometry: DeviceGeometry, image: Image) -> Self {
        Self {
            geometry: geometry.with_write_cache(WriteCache::Volatile),
            state: Mutex::new(State::of(image)),
        }
    }

    /// The bytes as reads answer them.
    #[must_use]
    pub fn snapshot(&self) -> Image {
        locked(&self.state).current.clone()
    }

    /// The bytes that no power cut changes: as of the last flush.
    #[must_use]
    pub fn durable(&self) -> Image {
        locked(&self.state).durable.clone()
    }

    /// Address and length of each piece since the last flush, oldest first.
    #[must_use]
    pub fn unflushed(&self) -> Vec<(DiskByte, LenBytes)> {
        let state = locked(&self.state);
        let places = state.unflushed.iter().map(Piece::place);
        places.collect()
    }

    /// What a power cut at this moment may leave. Of up to `max_exact` pieces
    /// that is every combination, each image once, and every tear of one block
    /// between sectors with all others lost or kept; of more it is none, all,
    /// and combinations and tears drawn by `seed`: `samples` images.
    ///
    /// The device can go on meanwhile.
    #[must_use]
    pub fn crash_images(&self, max_exact: usize, samples: usize, seed: u64) -> CrashImages {
        let state = locked(&self.state);
        let (durable, pieces) = (state.durable.clone(), state.unflushed.clone());
        CrashImages::new(durable, pieces, max_exact, samples, seed)
    }

    /// Cuts the power and turns it on again: each piece since the last flush has
    /// the fate with its index, and is lost if there is none.
    pub fn crash(&self, fates: &[Fate]) {
        let mut state = locked(&self.state);
        let image = crash::image(&state.durable, &state.unflushed, fates);
        *state = State::of(image);
    }

    /// Bytes of a piece.
    fn unit(&self) -> u64 {
        u64::from(self.geometry.logical_block()).max(SECTOR as u64)
    }
}

impl Device for VolatileDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let state = locked(&self.state);
        let len = read_len(self.geometry, &state.current, at, buffers)?;
        Ok(scatter(&state.current, at, len, buffers))
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let len = write_len(self.geometry, at, buffers)?;
        let bytes = gather(buffers, len);
        locked(&self.state).write(at.get(), &bytes, self.unit());
        Ok(len)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let mut state = locked(&self.state);
        state.durable = state.current.clone();
        state.unflushed.clear();
        Ok(())
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        check_range(self.geometry, at, len)?;
        locked(&self.state).overwrite_held(at, len, 0, self.unit());
        Ok(())
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        check_range(self.geometry, at, len)?;
        locked(&self.state).overwrite_held(at, len, DISCARDED, self.unit());
        Ok(())
    }
}

impl State {
    fn of(image: Image) -> Self {
        Self {
            durable: image.clone(),
            current: image,
            unflushed: Vec::new(),
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8], unit: u64) {
        self.current.write(DiskByte::new(at), bytes);
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let to_edge = usize::try_from(unit - at % unit).unwrap_or(usize::MAX);
            let (piece, behind) = rest.split_at(to_edge.min(rest.len()));
            self.unflushed.push(Piece {
                at,
                bytes: piece.into(),
            });
            at = at.saturating_add(piece.len() as u64);
            rest = behind;
        }
    }

    fn overwrite_held(&mut self, at: DiskByte, len: LenBytes, byte: u8, unit: u64) {
        for held in self.current.held(at, len) {
            let len = usize::try_from(held.end - held.start).unwrap_or(0) + 1;
            self.write(held.start, &vec![byte; len], unit);
        }
    }
}

impl Piece {
    fn place(&self) -> (DiskByte, LenBytes) {
        let len = LenBytes::new(self.bytes.len() as u64);
        (DiskByte::new(self.at), len)
    }

    fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes.len() as u64)
    }

    fn covers(&self, other: &Self) -> bool {
        self.at <= other.at && other.end() <= self.end()
    }

    fn sectors(&self) -> usize {
        self.bytes.len().div_ceil(SECTOR)
    }
}

#[cfg(test)]
mod tests;
