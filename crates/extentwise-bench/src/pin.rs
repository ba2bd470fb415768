//! Threads that stay on their core.

use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};

/// Calls `work` on a thread of its own that stays on this core, counted from the last.
/// Where the machine does not do that, it runs anywhere.
pub(crate) fn pinned<T: Send>(nth: usize, work: impl FnOnce() -> T + Send) -> T {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let run = move || {
        let mut cpus = CpuSet::new();
        cpus.set((cores - 1).saturating_sub(nth));
        // A machine that keeps some cores away from us refuses; the pairs still count.
        let _ = sched_setaffinity(None, &cpus);
        work()
    };
    thread::scope(|scope| {
        let worker = scope.spawn(run);
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
