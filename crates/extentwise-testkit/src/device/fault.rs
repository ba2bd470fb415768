//! A device that fails as planned.

use std::sync::Mutex;

use extentwise_device::{
    Device, DeviceError, DeviceGeometry, DiskByte, ErrorClass, LenBytes, read_exact, write_all,
};

use super::memory::gather;
use super::when::Trigger;
use super::{CallKind, SECTOR, When, locked};

/// How a call fails. What cannot befall a call (a short flush) leaves it as it
/// is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing is done, and the call answers an error of this class.
    Error(ErrorClass),
    /// A read or write moves half of its blocks, at least one, and says so.
    Short,
    /// Nothing is taken: a write answers zero, as a device without room may,
    /// other calls except reads answer [`ErrorClass::NoSpace`].
    Full,
    /// A write or write-zeroes is done in part, and answers
    /// [`ErrorClass::Io`]: the first half of the sectors is new, also where that
    /// divides a block.
    Torn,
    /// The call goes to an address further on, and answers as if it had not.
    /// No device may do this: checks have to notice.
    Misdirected {
        /// How much further on; a multiple of the logical block.
        by: LenBytes,
    },
    /// Nothing is done, and the call (but a read) answers that all was. No
    /// device may do this: checks have to notice.
    Lost,
}

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultRule {
    kind: Option<CallKind>,
    within: Option<(DiskByte, LenBytes)>,
    when: When,
    fault: Fault,
}

impl FaultRule {
    /// Strikes calls of every kind and address.
    #[must_use]
    pub const fn new(when: When, fault: Fault) -> Self {
        Self {
            kind: None,
            within: None,
            when,
            fault,
        }
    }

    /// The same for calls of one kind; only these are counted.
    #[must_use]
    pub const fn on(self, kind: CallKind) -> Self {
        Self {
            kind: Some(kind),
            ..self
        }
    }

    /// The same for calls that touch one of `len` bytes from `at` on; only these
    /// are counted.
    #[must_use]
    pub const fn within(self, at: DiskByte, len: LenBytes) -> Self {
        Self {
            within: Some((at, len)),
            ..self
        }
    }

    fn looks_at(&self, kind: CallKind, at: DiskByte, len: LenBytes) -> bool {
        // Ends are held at 2^64 - 1: the last address is no byte of a device.
        let touches = |(start, rule_len): (DiskByte, LenBytes)| {
            at.get() < start.get().saturating_add(rule_len.get())
                && start.get() < at.get().saturating_add(len.get())
        };
        self.kind.is_none_or(|only| only == kind) && self.within.is_none_or(touches)
    }
}

/// What goes wrong on a device. Where two rules strike a call, the first
/// decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    rules: Vec<FaultRule>,
    room: Option<LenBytes>,
}

impl FaultPlan {
    /// Nothing goes wrong.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            rules: Vec::new(),
            room: None,
        }
    }

    /// The same and this.
    #[must_use]
    pub fn with(mut self, rule: FaultRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// The same with room for so many bytes in all writes together: the write
    /// that finds no room for all it brings is short, those that follow answer
    /// [`ErrorClass::NoSpace`].
    #[must_use]
    pub fn with_room(mut self, room: LenBytes) -> Self {
        self.room = Some(room);
        self
    }
}

impl From<FaultRule> for FaultPlan {
    fn from(rule: FaultRule) -> Self {
        Self::new().with(rule)
    }
}

/// Passes calls on, except those that its plan lets fail.
#[derive(Debug)]
pub struct FaultDevice<D> {
    device: D,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rules: Vec<(FaultRule, Trigger)>,
    room: Option<LenBytes>,
    struck: u64,
}

impl<D> FaultDevice<D> {
    /// `device` with this plan.
    #[must_use]
    pub fn new(device: D, plan: impl Into<FaultPlan>) -> Self {
        Self {
            device,
            state: Mutex::new(State::new(plan.into())),
        }
    }

    /// Starts another plan, which counts from zero: an empty one heals the
    /// device.
    pub fn set_plan(&self, plan: impl Into<FaultPlan>) {
        *locked(&self.state) = State::new(plan.into());
    }

    /// Calls that failed by this plan; zero says that a test of it tested
    /// nothing.
    #[must_use]
    pub fn struck(&self) -> u64 {
        locked(&self.state).struck
    }

    /// The device inside.
    #[must_use]
    pub fn inner(&self) -> &D {
        &self.device
    }

    /// The device inside, for good.
    #[must_use]
    pub fn into_inner(self) -> D {
        self.device
    }
}

impl<D: Device> FaultDevice<D> {
    /// Counts a call; the fault that befalls it.
    fn fault(&self, kind: CallKind, at: DiskByte, len: LenBytes) -> Option<Fault> {
        let block = LenBytes::new(u64::from(self.geometry().logical_block()));
        let mut state = locked(&self.state);
        let mut fault = None;
        for (rule, trigger) in &mut state.rules {
            if rule.looks_at(kind, at, len) && trigger.strikes() {
                fault = fault.or(Some(rule.fault));
            }
        }
        let fault = fault.filter(|fault| match fault {
            Fault::Error(_) => true,
            Fault::Short => matches!(kind, CallKind::Read | CallKind::Write) && len > block,
            Fault::Full | Fault::Lost => kind != CallKind::Read,
            Fault::Torn => matches!(kind, CallKind::Write | CallKind::WriteZeroes),
            Fault::Misdirected { .. } => kind != CallKind::Flush,
        })?;
        state.struck = state.struck.saturating_add(1);
        Some(fault)
    }

    /// Half of `len` in whole blocks, at least one.
    fn half(&self, len: LenBytes) -> LenBytes {
        let block = u64::from(self.geometry().logical_block());
        let half = len.get() / 2;
        LenBytes::new((half - half % block).max(block).min(len.get()))
    }

    /// Writes the first half of the sectors of `bytes`, and says so by an error.
    fn tear(&self, at: DiskByte, bytes: &[u8]) -> DeviceError {
        let half = bytes.len() / 2;
        let sectors = half - half % SECTOR;
        let new = if sectors == 0 { half } else { sectors };
        let block = self.geometry().logical_block() as usize;
        let len = new.next_multiple_of(block).min(bytes.len());
        let mut torn = vec![0; len];
        let done = read_exact(&self.device, at, &mut torn).and_then(|_| {
            torn[..new].copy_from_slice(&bytes[..new]);
            write_all(&self.device, at, &[&torn])
        });
        done.err().unwrap_or(ErrorClass::Io.into())
    }

    /// How much of a write there is room for.
    fn roomy(&self, len: LenBytes) -> Result<LenBytes, DeviceError> {
        let Some(room) = locked(&self.state).room else {
            return Ok(len);
        };
        let block = u64::from(self.geometry().logical_block());
        let room = LenBytes::new(room.get() - room.get() % block);
        if room >= len {
            return Ok(len);
        }
        let mut state = locked(&self.state);
        state.struck = state.struck.saturating_add(1);
        if room.is_zero() {
            return Err(ErrorClass::NoSpace.into());
        }
        Ok(room)
    }

    fn take(&self, len: LenBytes) {
        let mut state = locked(&self.state);
        state.room = state.room.map(|room| room.saturating_sub(len));
    }
}

impl State {
    fn new(plan: FaultPlan) -> Self {
        let rules = plan.rules.into_iter();
        Self {
            rules: rules.map(|rule| (rule, Trigger::new(rule.when))).collect(),
            room: plan.room,
            struck: 0,
        }
    }
}

impl<D: Device> Device for FaultDevice<D> {
    fn geometry(&self) -> DeviceGeometry {
        self.device.geometry()
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let len = total(buffers.iter().map(|buffer| buffer.len()));
        match self.fault(CallKind::Read, at, len) {
            Some(Fault::Error(class)) => Err(class.into()),
            Some(Fault::Short) => {
                let mut rest = as_usize(self.half(len));
                let parts = buffers.iter_mut().map(|buffer| {
                    let part = rest.min(buffer.len());
                    rest -= part;
                    &mut buffer[..part]
                });
                self.device.read(at, &mut parts.collect::<Vec<_>>())
            }
            Some(Fault::Misdirected { by }) => self.device.read(elsewhere(at, by)?, buffers),
            Some(Fault::Full | Fault::Torn | Fault::Lost) | None => self.device.read(at, buffers),
        }
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let len = total(buffers.iter().map(|buffer| buffer.len()));
        let room = self.roomy(len)?;
        let taken = match self.fault(CallKind::Write, at, len) {
            Some(Fault::Error(class)) => Err(class.into()),
            Some(Fault::Short) => {
                let len = self.half(len).min(room);
                self.device.write(at, &first(buffers, len))
            }
            Some(Fault::Full) => Ok(LenBytes::ZERO),
            Some(Fault::Torn) => Err(self.tear(at, &gather(buffers, room))),
            Some(Fault::Misdirected { by }) => {
                let at = elsewhere(at, by)?;
                self.device.write(at, &first(buffers, room))
            }
            Some(Fault::Lost) => {
                let max = self.geometry().transfer_max();
                Ok(max.map_or(room, |max| max.min(room)))
            }
            None => self.device.write(at, &first(buffers, room)),
        }?;
        self.take(taken);
        Ok(taken)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        match self.fault(CallKind::Flush, DiskByte::ZERO, LenBytes::ZERO) {
            Some(Fault::Error(class)) => Err(class.into()),
            Some(Fault::Full) => Err(ErrorClass::NoSpace.into()),
            Some(Fault::Lost) => Ok(()),
            Some(Fault::Short | Fault::Torn | Fault::Misdirected { .. }) | None => {
                self.device.flush()
            }
        }
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        match self.fault(CallKind::WriteZeroes, at, len) {
            Some(Fault::Error(class)) => Err(class.into()),
            Some(Fault::Full) => Err(ErrorClass::NoSpace.into()),
            Some(Fault::Torn) => {
                self.device.write_zeroes(at, self.half(len))?;
                Err(ErrorClass::Io.into())
            }
            Some(Fault::Misdirected { by }) => self.device.write_zeroes(elsewhere(at, by)?, len),
            Some(Fault::Lost) => Ok(()),
            Some(Fault::Short) | None => self.device.write_zeroes(at, len),
        }
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        match self.fault(CallKind::Discard, at, len) {
            Some(Fault::Error(class)) => Err(class.into()),
            Some(Fault::Full) => Err(ErrorClass::NoSpace.into()),
            Some(Fault::Misdirected { by }) => self.device.discard(elsewhere(at, by)?, len),
            Some(Fault::Lost) => Ok(()),
            Some(Fault::Short | Fault::Torn) | None => self.device.discard(at, len),
        }
    }
}

fn total(lens: impl Iterator<Item = usize>) -> LenBytes {
    lens.fold(LenBytes::ZERO, |sum, len| {
        sum.saturating_add(LenBytes::new(len as u64))
    })
}

/// The first `len` bytes of `buffers`, each buffer for itself.
fn first<'b>(buffers: &[&'b [u8]], len: LenBytes) -> Vec<&'b [u8]> {
    let mut rest = as_usize(len);
    let parts = buffers.iter().map(|buffer| {
        let part = rest.min(buffer.len());
        rest -= part;
        &buffer[..part]
    });
    parts.collect()
}

fn elsewhere(at: DiskByte, by: LenBytes) -> Result<DiskByte, DeviceError> {
    at.checked_add(by).ok_or(ErrorClass::TooLarge.into())
}

fn as_usize(len: LenBytes) -> usize {
    usize::try_from(len.get()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
