//! The core at work with nothing below it, no std, no heap, no C library, no start files;
//! then the engine, for which a heap is made of memory of the program's own.
//!
//! Exit status 0 means that all scenarios went as they must, else it is the number of a
//! [`Fault`]. With a word on the command line the device of the first scenario misbehaves,
//! with two that of the engine, and the program must notice ([`Fault::RefusedBytes`],
//! [`Fault::FailedSync`]).
#![no_std]
#![no_main]

mod cache;
mod heap;
mod start;
mod write_begin;
mod writeback;

use core::panic::PanicInfo;

use cache::Disk;
use spin::Mutex;
use start::Exit;
use writeback::Device;

/// What went wrong; the number is the exit status.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Fault {
    /// The scenario itself was refused by the core.
    Setup = 10,
    /// The refused piece was not counted as such (W8). `cargo xtask no-std` expects this
    /// number of its canary run.
    RefusedBytes = 11,
    /// The first error is not that of the gap (W9).
    FirstError = 12,
    /// A block was not counted once (W9).
    Counts = 13,
    /// Other bios were sent than the extents and the gap allow (S1, W7).
    Bios = 14,
    /// Stale bytes past the size would reach the device (S4).
    Zeroing = 15,
    /// A folio was left dirty or in writeback (W9).
    FolioState = 16,
    /// An extent ended otherwise than its blocks (O4, O5).
    Outcome = 17,
    /// The recorded size is not that of the valid bytes (S4).
    RecordedSize = 18,
    /// A block was finished twice (O4).
    DoubleFinish = 19,
    /// A write asked for something that its blocks do not need (V3, V4).
    Asks = 30,
    /// A short copy was committed, or a whole one was not (V8).
    Committed = 31,
    /// Bytes of the folio are not what was written or zeroed (V3, V6).
    Bytes = 32,
    /// Blocks carry other flags than the write left them (V6, V9).
    BlockState = 33,
    /// A failed read did not fail its write (V5).
    FailedRead = 34,
    /// A write asked on and on.
    Endless = 35,
    /// A write into the cache was refused.
    CacheWrite = 50,
    /// A sync did not tell that the device refused (C2, E2). `cargo xtask no-std` expects this
    /// number of its second canary run.
    FailedSync = 51,
    /// Data that could not be written is not dirty (C2).
    KeptDirty = 52,
    /// The same sync again failed, or left data dirty.
    Retry = 53,
    /// The map was made durable before the data was (C8).
    FlushOrder = 54,
    /// The device holds other bytes than were written.
    OnDevice = 55,
    /// Other bytes were read than were written.
    ReadBack = 56,
    /// The engine left memory allocated.
    Leak = 57,
    /// Somewhere below, a panic.
    Panic = 101,
}

impl Fault {
    /// An error if `holds` is false.
    fn unless(self, holds: bool) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(self) }
    }
}

/// The way out, for the panic handler.
static EXIT: Mutex<Option<Exit>> = Mutex::new(None);

/// Called by the entry point with the number of words on the command line; the answer is the
/// exit status.
extern "C" fn run(words: u64, exit: Exit) -> i32 {
    *EXIT.lock() = Some(exit);
    // The first word is the program's own name.
    let device = if words == 2 {
        Device::that_takes_all()
    } else {
        Device::that_refuses(2)
    };
    let disk = Disk::that_refuses(u32::from(words < 3));
    match scenarios(device, &disk) {
        Ok(()) => 0,
        Err(fault) => fault as i32,
    }
}

fn scenarios(device: Device, disk: &Disk) -> Result<(), Fault> {
    writeback::run(device)?;
    write_begin::run()?;
    heap::begin();
    cache::run(disk)
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    if let Some(exit) = EXIT.try_lock().and_then(|exit| *exit) {
        exit(Fault::Panic as i32);
    }
    loop {
        core::hint::spin_loop();
    }
}
