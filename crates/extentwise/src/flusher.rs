//! The threads of a cache: they carry effects out, one after the other each.

use std::sync::PoisonError;
use std::time::Duration;

use extentwise_device::{Device, DeviceError, read_exact, write_all};
use extentwise_engine::{DiskByte, Effect, ErrorClass, FileId, Host, IoId, Mapping};

use crate::cache::{Shared, State};
use crate::sync::MutexGuard;
use crate::told::{self, Told};

/// How often dirty data is looked at for its age and leases are recalled, while
/// there are any.
const TICK: Duration = Duration::from_secs(1);

/// Carries effects out until the cache ends and nothing is left to do.
pub(crate) fn serve<P: Mapping, H: Host<P>>(shared: &Shared<P, H>) {
    let mut state = shared.lock();
    loop {
        let now = shared.now();
        if now.saturating_sub(state.recalled) >= TICK {
            state.recalled = now;
            state.recall_all();
        }
        state.engine.tick(nanos(now));
        shared.settle(&mut state);
        let Some(effect) = state.engine.next_effect() else {
            if state.stopping && !state.engine.is_io_under_way() {
                // The others wait for the last completion, which was this one.
                shared.work.notify_all();
                return;
            }
            state = idle(shared, state, now);
            continue;
        };
        shared.settle(&mut state);
        state = carry_out(shared, state, effect);
    }
}

/// Waits for work; one thread for a while only, if something may come of age.
fn idle<'a, P: Mapping, H>(
    shared: &'a Shared<P, H>,
    mut state: MutexGuard<'a, State<P>>,
    now: Duration,
) -> MutexGuard<'a, State<P>> {
    let ticks = !state.ticking && state.may_age();
    let left = TICK.saturating_sub(now.saturating_sub(state.recalled));
    state.idle += 1;
    state.ticking |= ticks;
    let mut state = if ticks {
        let waited = shared.work.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    } else {
        let waited = shared.work.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    };
    state.idle -= 1;
    state.ticking &= !ticks;
    state
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn carry_out<'a, P: Mapping, H: Host<P>>(
    shared: &'a Shared<P, H>,
    mut state: MutexGuard<'a, State<P>>,
    effect: Effect,
) -> MutexGuard<'a, State<P>> {
    let told = Told::of(&effect, shared.now());
    // While the cache is not locked, if that can be: who listens may be slow.
    let tell = |result| {
        if let Some(told) = told {
            told.ended(result, shared.now());
        }
    };
    let (io, result) = match effect {
        Effect::Read { io, file, disk, .. } => {
            let target = state.engine.read_target(io);
            let target = target.map(|(bytes, place)| (bytes.clone(), place));
            drop(state);
            let result = target.map_or(Err(ErrorClass::Io.into()), |(bytes, place)| {
                let device = shared.host.device(file)?;
                let mut bytes = bytes.write();
                let into = bytes.get_mut(place).unwrap_or_default();
                read_exact(device, disk, into).map(|_| ())
            });
            tell(result);
            state = shared.lock();
            (io, result)
        }
        Effect::Write { io, file, disk, .. } => {
            return write(shared, state, (io, file, disk), tell);
        }
        Effect::Flush { io, file } => {
            drop(state);
            let result = shared.host.device(file).and_then(Device::flush);
            tell(result);
            state = shared.lock();
            (io, result)
        }
        Effect::Persist { io, file } => {
            let result = shared.host.persist(state.engine.mapping_mut(), file);
            tell(result);
            (io, result)
        }
        Effect::SyncEnded { sync, result } => {
            state.ended.push((sync, result));
            shared.changed.notify_all();
            return state;
        }
        Effect::Wake => {
            shared.changed.notify_all();
            return state;
        }
        Effect::Lost { file, range, why } => {
            drop(state);
            told::lost(file, range, why);
            shared.host.lost(file, range, why);
            return shared.lock();
        }
    };
    complete(shared, &mut state, io, result);
    state
}

/// Writes a bio. Its folios are locked against writers for as long, so that the
/// device sees one content of each.
fn write<'a, P: Mapping, H: Host<P>>(
    shared: &'a Shared<P, H>,
    state: MutexGuard<'a, State<P>>,
    (io, file, disk): (IoId, FileId, DiskByte),
    tell: impl FnOnce(Result<(), DeviceError>),
) -> MutexGuard<'a, State<P>> {
    let source = state.engine.write_source(io);
    let source: Vec<_> = source
        .map(|(bytes, place)| (bytes.clone(), place))
        .collect();
    drop(state);
    let result = shared.host.device(file).and_then(|device| {
        let locked: Vec<_> = source
            .iter()
            .map(|(bytes, place)| (bytes.read(), place))
            .collect();
        let slices: Vec<&[u8]> = locked
            .iter()
            .map(|(bytes, place)| bytes.get((*place).clone()).unwrap_or_default())
            .collect();
        write_all(device, disk, &slices).map(|_| ())
    });
    tell(result);
    let mut state = shared.lock();
    complete(shared, &mut state, io, result);
    state
}

fn complete<P: Mapping, H>(
    shared: &Shared<P, H>,
    state: &mut State<P>,
    io: IoId,
    result: Result<(), DeviceError>,
) {
    state.engine.tick(nanos(shared.now()));
    state
        .engine
        .complete(io, result.map_err(DeviceError::class));
    if state.stopping {
        shared.work.notify_all();
    }
}
