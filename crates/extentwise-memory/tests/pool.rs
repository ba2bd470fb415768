//! What a pool gets, keeps and gives back.

use std::cmp::Ordering;

use extentwise_core::extent_buffer::{BlockMemory, ExtentBuffer};
use extentwise_memory::testing::Faults;
use extentwise_memory::{Backing, Content, MemoryError, NodeGeometry, NodeMemory, NodePool};

const KEPT_MAX: usize = 1 << 20;

fn geometry(node_size: usize, page_size: usize) -> NodeGeometry {
    NodeGeometry::new(node_size, page_size).unwrap()
}

fn faulty(faults: Faults) -> NodePool<Faults> {
    NodePool::with_steps(KEPT_MAX, faults)
}

fn geometries() -> impl Iterator<Item = NodeGeometry> {
    let nodes = [4096, 8192, 16384, 32768, 65536];
    nodes
        .into_iter()
        .flat_map(|node| [4096, 16384, 65536].map(|page| geometry(node, page)))
}

fn bytes_of(memory: &NodeMemory) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < memory.len() {
        bytes.extend_from_slice(memory.chunk(bytes.len()));
    }
    bytes
}

#[test]
fn b1_every_backing_is_there_for_every_geometry_and_zeroed() {
    for geometry in geometries() {
        for backing in Backing::ALL {
            let mut pool = NodePool::new(0);
            let memory = pool.get(geometry, backing, Content::Zeroed).unwrap();
            assert_eq!(memory.backing(), backing);
            assert_eq!(memory.len(), geometry.node_size());
            assert_eq!(bytes_of(&memory), vec![0; geometry.node_size()]);
            let pieces = match backing {
                Backing::Scattered => geometry.pages(),
                Backing::Contiguous | Backing::Mapped => 1,
            };
            assert_eq!(memory.chunk(0).len() * pieces, geometry.node_size());
            assert!(memory.chunk(memory.len()).is_empty());
        }
    }
}

#[test]
fn b1_the_backings_are_tried_in_order_and_what_was_got_shows() {
    let geometry = geometry(16384, 4096);
    for (contiguous, maps, got) in [
        (0, 0, Backing::Contiguous),
        (1, 0, Backing::Mapped),
        (1, 1, Backing::Mapped),
        (1, 2, Backing::Scattered),
    ] {
        let mut pool = faulty(Faults {
            contiguous,
            maps,
            ..Faults::default()
        });
        let memory = pool.get(geometry, Backing::Contiguous, Content::Any);
        assert_eq!(memory.unwrap().backing(), got);
        let stats = pool.stats();
        assert_eq!(stats.contiguous_failed, u64::from(contiguous));
        assert_eq!(stats.mapping_failed, u64::from(maps == 2));
        let new = [stats.contiguous, stats.mapped, stats.scattered];
        assert_eq!(new, Backing::ALL.map(|backing| u64::from(backing == got)));
    }
}

#[test]
fn b7_a_mapping_is_tried_once_more_after_unused_mappings_were_purged() {
    let geometry = geometry(16384, 4096);
    let mut pool = faulty(Faults::default());
    let first = pool.get(geometry, Backing::Mapped, Content::Any).unwrap();
    let second = pool.get(geometry, Backing::Mapped, Content::Any).unwrap();
    let other = pool.get(geometry, Backing::Contiguous, Content::Any);
    pool.give_back(first);
    pool.give_back(second);
    pool.give_back(other.unwrap());
    assert_eq!((pool.kept_bytes(), pool.mapped_bytes()), (49152, 32768));

    // Another size, so that what is kept does not serve.
    let small = NodeGeometry::new(8192, 4096).unwrap();
    pool.steps_mut().maps = 1;
    let memory = pool.get(small, Backing::Mapped, Content::Any).unwrap();
    assert_eq!(memory.backing(), Backing::Mapped);
    assert_eq!((pool.stats().purged, pool.stats().mapping_failed), (2, 0));
    assert_eq!((pool.kept_bytes(), pool.mapped_bytes()), (16384, 8192));

    pool.steps_mut().maps = 2;
    let tried = pool.steps().maps_tried;
    let memory = pool.get(small, Backing::Mapped, Content::Any).unwrap();
    assert_eq!(memory.backing(), Backing::Scattered);
    assert_eq!(
        pool.steps().maps_tried - tried,
        2,
        "once more, then no more"
    );
    assert_eq!(pool.stats().mapping_failed, 1);
}

#[test]
fn b7_where_page_k_is_not_to_be_had_nothing_is_held() {
    for geometry in geometries() {
        for page in 0..geometry.pages() {
            let mut pool = faulty(Faults {
                page_at: Some(page),
                ..Faults::default()
            });
            let refused = pool.get(geometry, Backing::Mapped, Content::Any);
            let size = geometry.node_size();
            assert_eq!(refused.err(), Some(MemoryError::OutOfMemory(size)));
            assert_eq!(pool.steps().pages_got, 3 * page);
            assert_eq!((pool.kept_bytes(), pool.mapped_bytes()), (0, 0));
        }
    }
}

#[test]
fn memory_is_reused_by_size_and_backing_and_zeroed_where_that_is_wanted() {
    let mut pool = NodePool::new(KEPT_MAX);
    for geometry in [geometry(16384, 4096), geometry(16384, 16384)] {
        for backing in Backing::ALL {
            let mut memory = pool.get(geometry, backing, Content::Zeroed).unwrap();
            memory.fill(0xa5);
            pool.give_back(memory);
        }
    }
    assert_eq!((pool.stats().reused, pool.kept_bytes()), (0, 6 * 16384));
    for (reused, backing) in (1..).zip(Backing::ALL) {
        for (content, byte) in [(Content::Any, 0xa5), (Content::Zeroed, 0)] {
            let memory = pool.get(geometry(16384, 4096), backing, content).unwrap();
            assert_eq!(memory.backing(), backing);
            assert_eq!(bytes_of(&memory), vec![byte; 16384]);
            pool.give_back(memory);
        }
        assert_eq!(pool.stats().reused, 2 * reused);
    }
}

#[test]
fn the_pool_keeps_no_more_than_it_was_told() {
    let mut pool = NodePool::new(3 * 16384 + 16383);
    let memories: Vec<_> = (0..5)
        .map(|_| pool.get(geometry(16384, 4096), Backing::Mapped, Content::Any))
        .collect();
    for memory in memories {
        pool.give_back(memory.unwrap());
    }
    assert_eq!(pool.kept_bytes(), 3 * 16384);
    assert_eq!(pool.mapped_bytes(), 3 * 16384);
    assert_eq!(pool.purge(), 3);
    assert_eq!((pool.kept_bytes(), pool.mapped_bytes()), (0, 0));
    assert_eq!(pool.stats().purged, 3);
}

#[test]
fn the_unused_memory_is_given_up_before_there_is_none() {
    let mut pool = faulty(Faults::default());
    let kept = pool.get(geometry(4096, 4096), Backing::Contiguous, Content::Any);
    pool.give_back(kept.unwrap());
    pool.steps_mut().page_at = Some(1);
    let refused = pool.get(geometry(8192, 4096), Backing::Scattered, Content::Any);
    assert_eq!(refused.err(), Some(MemoryError::OutOfMemory(8192)));
    assert_eq!((pool.kept_bytes(), pool.stats().purged), (0, 1));
}

#[test]
fn b4_blocks_of_one_page_leave_their_neighbours_alone() {
    let geometry = geometry(16384, 65536);
    for backing in Backing::ALL {
        let mut pool = NodePool::new(0);
        let mut memories = pool.get_page(geometry, backing).unwrap();
        assert_eq!(memories.len(), 4);
        let places: Vec<usize> = memories
            .iter()
            .map(|memory| memory.chunk(0).as_ptr().addr())
            .collect();
        assert!(places[0].is_multiple_of(65536), "{backing:?}");
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] == 16384));

        for memory in &mut memories {
            memory.fill(0xee);
        }
        let mut block = ExtentBuffer::zeroed(3 * 16384, memories.remove(1));
        block.fill(0, 16384, 0x11).unwrap();
        block.copy_within(1, 0, 16383).unwrap();
        block.set_bits(0, 0, 16384 * 8).unwrap();
        assert!(block.fill(16383, 2, 0).is_err());
        for memory in &memories {
            assert_eq!(bytes_of(memory), vec![0xee; 16384], "{backing:?}");
        }
        assert_eq!(block.compare(0, &[0xff; 16384]), Ok(Ordering::Equal));
    }
}

#[test]
fn b4_parts_of_a_page_are_got_one_by_one_and_the_rest_is_kept() {
    let geometry = geometry(4096, 16384);
    for backing in Backing::ALL {
        let mut pool = NodePool::new(KEPT_MAX);
        let four: Vec<_> = (0..4)
            .map(|_| pool.get(geometry, backing, Content::Zeroed).unwrap())
            .collect();
        assert_eq!(pool.kept_bytes(), 0);
        assert_eq!(pool.stats().reused, 3);
        let fifth = pool.get(geometry, backing, Content::Zeroed).unwrap();
        assert_eq!(pool.kept_bytes(), 3 * 4096);
        drop((four, fifth));
    }
}

#[test]
fn blocks_move_between_threads() {
    let mut pool = NodePool::new(KEPT_MAX);
    for backing in Backing::ALL {
        let memory = pool.get(geometry(16384, 65536), backing, Content::Zeroed);
        let mut block = ExtentBuffer::zeroed(0, memory.unwrap());
        let thread = std::thread::spawn(move || {
            block.set(16376, 0x0102_0304_0506_0708_u64).unwrap();
            block
        });
        let block = thread.join().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert_eq!(block.get::<u8>(16376), Ok(8)));
            }
        });
    }
    std::thread::spawn(move || pool.purge()).join().unwrap();
}
