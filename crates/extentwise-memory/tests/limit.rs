//! Address space that really runs out: the test runs itself again in a process
//! with a limit.

use std::env;
use std::process::Command;

use extentwise_core::extent_buffer::BlockMemory;
use extentwise_memory::{Backing, Content, Folio, MemoryError, NodeGeometry, NodeMemory, NodePool};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Set in the process that lives under a limit.
const LIMITED: &str = "EXTENTWISE_TEST_LIMITED";
/// More than any process of ours has, and less than the shadow of a sanitizer.
const SHADOW_MIN: u64 = 1 << 40;

#[test]
fn b1_a_mapping_that_really_fails_gives_scattered_pages_and_then_a_clean_error() {
    if address_space() > SHADOW_MIN {
        println!("SKIPPED: a sanitizer's shadow leaves no address space to limit");
        return;
    }
    if env::var_os(LIMITED).is_some() {
        live_under_a_limit();
        return;
    }
    let this = env::current_exe().unwrap();
    let name = "b1_a_mapping_that_really_fails_gives_scattered_pages_and_then_a_clean_error";
    let output = Command::new(this)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(LIMITED, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.contains("lived under the limit"), "{text}{errors}");
}

#[test]
fn more_memory_than_there_is_is_an_error_and_no_abort() {
    if address_space() > SHADOW_MIN {
        println!("SKIPPED: a sanitizer's allocator takes such a size for a bug");
        return;
    }
    for shift in 60..63 {
        let size = 1_usize << shift;
        let refused = Folio::zeroed(size).err();
        assert_eq!(refused, Some(MemoryError::OutOfMemory(size)));
    }
}

fn live_under_a_limit() {
    const BLOCKS_MAX: usize = 16384;
    let geometry = NodeGeometry::new(16384, 4096).unwrap();
    let mut pool = NodePool::new(1 << 20);
    let mut blocks: Vec<NodeMemory> = Vec::with_capacity(BLOCKS_MAX);
    let mapped = pool
        .get(geometry, Backing::Mapped, Content::Zeroed)
        .unwrap();
    assert_eq!(mapped.backing(), Backing::Mapped);

    // Pages that the allocator has at hand below the limit.
    let at_hand: Vec<_> = (0..64).map(|_| Folio::zeroed(4096).unwrap()).collect();
    let barrier = Folio::zeroed(4096).unwrap();
    drop(at_hand);
    let before = getrlimit(Resource::As);
    let limit = Rlimit {
        current: Some(address_space()),
        ..before
    };
    setrlimit(Resource::As, limit).unwrap();

    let error = loop {
        match pool.get(geometry, Backing::Mapped, Content::Zeroed) {
            Ok(memory) if blocks.len() < BLOCKS_MAX => blocks.push(memory),
            Ok(_) => break None,
            Err(error) => break Some(error),
        }
    };
    let got = blocks.len();
    let scattered = blocks
        .iter()
        .filter(|block| block.backing() == Backing::Scattered)
        .count();
    let refused = Folio::zeroed(1 << 30).err();

    setrlimit(Resource::As, before).unwrap();
    assert!(got > 0, "nothing at all was got");
    assert_eq!(scattered, got, "the mapping failed, every time");
    assert_eq!(pool.stats().mapping_failed, got as u64 + 1);
    assert_eq!(error, Some(MemoryError::OutOfMemory(16384)));
    assert_eq!(refused, Some(MemoryError::OutOfMemory(1 << 30)));
    assert_eq!(pool.mapped_bytes(), 16384, "only what was mapped before");
    for block in &mut blocks {
        assert!(block.chunk(12288).iter().all(|byte| *byte == 0));
        block.fill(1);
    }
    drop((blocks, barrier, mapped));
    let again = pool
        .get(geometry, Backing::Mapped, Content::Zeroed)
        .unwrap();
    assert_eq!(again.backing(), Backing::Mapped);
    println!("lived under the limit with {got} scattered blocks");
}

/// Bytes of address space that this process has.
fn address_space() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split(' ').next().unwrap();
    let page_size = u64::try_from(rustix::param::page_size()).unwrap();
    pages.parse::<u64>().unwrap() * page_size
}
