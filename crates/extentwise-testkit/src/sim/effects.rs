//! Carrying out what the engine asks for: in any order, and answered later.

use extentwise_device::{Device, read_exact, write_all};
use extentwise_engine::{DiskByte, Effect, ErrorClass, IoId, LenBytes};

use super::store::{Store, index};
use super::world::{Check, Faulting, Flushes, World};
use crate::device::{Fault, FaultPlan, FaultRule, When};

/// An effect under way.
#[derive(Debug)]
pub(super) struct Io {
    id: IoId,
    kind: Kind,
    pub(super) file: usize,
    /// How it went, once it was carried out.
    done: Option<Result<(), ErrorClass>>,
    /// It is answered when nothing else is left.
    late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read(DiskByte),
    Write(DiskByte, LenBytes),
    Flush,
    Persist,
}

impl Io {
    pub(super) fn is_write(&self) -> bool {
        matches!(self.kind, Kind::Write(..))
    }
}

impl<S: Store> World<'_, '_, S> {
    /// Takes all effects out of the engine.
    pub(super) fn drain(&mut self) -> Check {
        while let Some(effect) = self.engine.next_effect() {
            let (id, kind, file) = match effect {
                Effect::Read { io, file, disk, .. } => (io, Kind::Read(disk), file),
                Effect::Write {
                    io,
                    file,
                    disk,
                    len,
                    ..
                } => (io, Kind::Write(disk, len), file),
                Effect::Flush { io, file } => (io, Kind::Flush, file),
                Effect::Persist { io, file } => (io, Kind::Persist, file),
                Effect::SyncEnded { sync, result } => {
                    self.sync_ended(sync, result)?;
                    continue;
                }
                Effect::Wake => {
                    self.owes_wake = false;
                    continue;
                }
                Effect::Lost { .. } => {
                    self.lost(&effect)?;
                    continue;
                }
            };
            self.ios.push(Io {
                id,
                kind,
                file: index(file),
                done: None,
                late: false,
            });
        }
        Ok(())
    }

    /// Carries out an effect that waits for it, if any does.
    pub(super) fn perform_some(&mut self) -> Check {
        let waiting = self.ios.iter().enumerate();
        let waiting: Vec<usize> = waiting
            .filter(|(_, io)| io.done.is_none())
            .map(|(nth, _)| nth)
            .collect();
        if waiting.is_empty() {
            return self.begin_write();
        }
        let nth = self.choices.index(waiting.len());
        self.perform(waiting[nth])
    }

    /// Answers an effect, if there is any; carries it out before, if nobody has.
    pub(super) fn complete_some(&mut self) -> Check {
        let free = self.ios.iter().enumerate();
        let mut free: Vec<usize> = free
            .filter(|(_, io)| !io.late)
            .map(|(nth, _)| nth)
            .collect();
        if free.is_empty() {
            // What is late comes at last, the newest first.
            free.extend(self.ios.len().checked_sub(1));
        }
        if free.is_empty() {
            return self.begin_write();
        }
        let nth = self.choices.index(free.len());
        let nth = free[nth];
        if self.ios[nth].done.is_none() {
            self.perform(nth)?;
            if self.ios[nth].late {
                return Ok(());
            }
        }
        let io = self.ios.remove(nth);
        let result = io.done.unwrap_or(Ok(()));
        self.note(|_| format!("complete {:?} {:?}: {result:?}", io.id, io.kind));
        self.engine.complete(io.id, result);
        if result.is_err() {
            self.failed_once = true;
            match io.kind {
                Kind::Read(_) => {}
                Kind::Write(..) => self.write_failed(io.file),
                Kind::Flush | Kind::Persist => self.sync_failed(io.file),
            }
        }
        self.settle(io.file);
        self.drain()
    }

    fn perform(&mut self, nth: usize) -> Check {
        let (id, kind, file) = {
            let io = &self.ios[nth];
            (io.id, io.kind, io.file)
        };
        let fault = self.draw_fault(kind);
        let disk = self.store.disk_of(file);
        if let Some(rule) = fault {
            disk.set_plan(rule);
        }
        let before = disk.inner().calls();
        let result = match kind {
            Kind::Read(at) => {
                let Some((bytes, place)) = self.engine.read_target(id) else {
                    return Err("a read has no memory to go to".into());
                };
                read_exact(disk, at, &mut bytes[place]).map(|_| ())
            }
            Kind::Write(at, len) => {
                let source = self.engine.write_source(id);
                let slices: Vec<&[u8]> = source.map(|(bytes, place)| &bytes[place]).collect();
                let given: usize = slices.iter().map(|slice| slice.len()).sum();
                if given as u64 != len.get() {
                    return Err(format!("a write of {len} has {given} bytes"));
                }
                write_all(disk, at, &slices).map(|_| ())
            }
            Kind::Flush if self.flushes == Flushes::LeftOut => Ok(()),
            Kind::Flush => disk.flush(),
            Kind::Persist => {
                let left_out = u32::from(self.flushes == Flushes::LeftOut);
                disk.inner().leave_flushes_out(left_out);
                let map = self.engine.mapping_mut();
                let result = self.store.persist(map, Self::file_id(file));
                disk.inner().leave_flushes_out(0);
                result.map_err(Into::into)
            }
        };
        if fault.is_some() {
            disk.set_plan(FaultPlan::new());
        }
        let made = before..disk.inner().calls();
        let late = self.late.is_some_and(|late| {
            let of_disk = file.min(self.store.disks().len() - 1) == late.disk;
            of_disk && !made.is_empty() && made.start <= late.last && late.first < made.end
        });
        self.note(|_| format!("file {file}: perform {id:?} {kind:?}: {result:?}"));
        let io = &mut self.ios[nth];
        io.done = Some(result.map_err(extentwise_device::DeviceError::class));
        io.late = late;
        self.check_cuts()
    }

    /// What befalls the calls of an effect, now and then.
    fn draw_fault(&mut self, kind: Kind) -> Option<FaultRule> {
        if self.faulting != Faulting::Drawn || !self.choices.one_in(6) {
            return None;
        }
        let nth = match kind {
            Kind::Persist => self.choices.below(5),
            _ => 0,
        };
        let faults = [
            Fault::Error(ErrorClass::Io),
            Fault::Torn,
            Fault::Short,
            Fault::Full,
            Fault::Error(ErrorClass::NoSpace),
        ];
        let mut fault = self.choices.one_of(&faults);
        if fault == Fault::Torn && self.setup.block_bytes == 512 {
            // It would tear a sector, which a power cut does not.
            fault = Fault::Error(ErrorClass::Io);
        }
        Some(FaultRule::new(When::Nth(nth), fault))
    }
}
