//! A device that is watched: each call is a place where the power may be cut.

use std::cell::{Cell, RefCell};

use extentwise_device::{Device, DeviceError, DeviceGeometry, DiskByte, LenBytes};

use crate::device::{CrashImages, Image, VolatileDevice};

/// Pieces of which every combination is tried.
const PIECES_EXACT: usize = 10;
/// Images drawn where there are more.
const SAMPLES: usize = 96;

/// A volatile device, and the length of the file on it where it has one.
#[derive(Debug)]
pub(super) struct Watch {
    device: VolatileDevice,
    /// The length of the file, as it is and as it is durable.
    size: Cell<u64>,
    durable_size: Cell<u64>,
    calls: Cell<u64>,
    cuts: RefCell<Option<Vec<Cut>>>,
    flushes_left_out: Cell<u32>,
}

/// What a power cut between two calls may leave.
#[derive(Debug)]
pub(super) struct Cut {
    /// The images, each with either size.
    pub(super) images: CrashImages,
    pub(super) sizes: [u64; 2],
}

impl Watch {
    pub(super) fn new(geometry: DeviceGeometry, image: Image) -> Self {
        Self {
            device: VolatileDevice::from_image(geometry, image),
            size: Cell::new(0),
            durable_size: Cell::new(0),
            calls: Cell::new(0),
            cuts: RefCell::new(None),
            flushes_left_out: Cell::new(0),
        }
    }

    /// From now on each call is noted as a place to cut the power.
    pub(super) fn note_cuts(&self) {
        *self.cuts.borrow_mut() = Some(Vec::new());
    }

    /// The places noted since this was asked last.
    pub(super) fn take_cuts(&self) -> Vec<Cut> {
        match &mut *self.cuts.borrow_mut() {
            Some(cuts) => std::mem::take(cuts),
            None => Vec::new(),
        }
    }

    /// Calls so far.
    pub(super) fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// The next `count` flushes are answered and not done: what no host may do.
    pub(super) fn leave_flushes_out(&self, count: u32) {
        self.flushes_left_out.set(count);
    }

    /// What a power cut at this moment leaves for certain.
    pub(super) fn durable(&self) -> (Image, u64) {
        (self.device.durable(), self.durable_size.get())
    }

    /// The length of the file is durable with the next flush.
    pub(super) fn set_size(&self, size: u64) {
        self.size.set(size);
        self.note();
    }

    /// Notes this moment as a place to cut the power, if such are noted.
    pub(super) fn note(&self) {
        if let Some(cuts) = &mut *self.cuts.borrow_mut() {
            cuts.push(Cut {
                images: self
                    .device
                    .crash_images(PIECES_EXACT, SAMPLES, self.calls.get()),
                sizes: [self.durable_size.get(), self.size.get()],
            });
        }
    }

    fn called<T>(&self, answer: T) -> T {
        self.calls.set(self.calls.get() + 1);
        self.note();
        answer
    }
}

impl Device for Watch {
    fn geometry(&self) -> DeviceGeometry {
        self.device.geometry()
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        self.calls.set(self.calls.get() + 1);
        self.device.read(at, buffers)
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        self.called(self.device.write(at, buffers))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let left_out = self.flushes_left_out.get();
        if left_out > 0 {
            self.flushes_left_out.set(left_out - 1);
            return Ok(());
        }
        let answer = self.device.flush();
        self.durable_size.set(self.size.get());
        self.called(answer)
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.called(self.device.write_zeroes(at, len))
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.called(self.device.discard(at, len))
    }
}
