//! Every operation on one slice and on pages, against a flat array.

use super::*;
use core::cmp::Ordering;

/// A block of 40 bytes in pages of 16, from byte 4 of the first page on.
const LEN: usize = 40;
const PAGE: usize = 16;
const FIRST: usize = 4;
const GUARD: u8 = 0xee;

fn pattern() -> [u8; LEN] {
    core::array::from_fn(|i| u8::try_from(i * 5 % 251).unwrap())
}

type Flat = ExtentBuffer<Contiguous<[u8; LEN]>>;

fn flat() -> Flat {
    let mut buffer = ExtentBuffer::zeroed(1 << 20, Contiguous::new([0; LEN]));
    buffer.write(0, &pattern()).unwrap();
    buffer
}

/// Runs `change` on a scattered block; checks that the bytes beside it in its
/// pages are untouched, and answers its own.
fn scattered<R>(
    change: impl FnOnce(&mut ExtentBuffer<Scattered<&mut [[u8; PAGE]]>>) -> R,
) -> (R, [u8; LEN]) {
    let mut pages = [[GUARD; PAGE]; 3];
    let memory = Scattered::new(&mut pages[..], PAGE, FIRST, LEN).unwrap();
    let mut buffer = ExtentBuffer::zeroed(1 << 20, memory);
    buffer.write(0, &pattern()).unwrap();
    let answer = change(&mut buffer);
    let mut bytes = [0; LEN];
    buffer.read(0, &mut bytes).unwrap();
    let outside = pages.as_flattened();
    assert!(outside[..FIRST].iter().all(|byte| *byte == GUARD));
    assert!(outside[FIRST + LEN..].iter().all(|byte| *byte == GUARD));
    (answer, bytes)
}

fn bytes_of<M: BlockMemory>(buffer: &ExtentBuffer<M>) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    buffer.read(0, &mut bytes).unwrap();
    bytes
}

/// All `(offset, len)` that fit, in a block small enough to try them all.
fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..=LEN).flat_map(|offset| (0..=LEN - offset).map(move |len| (offset, len)))
}

#[test]
fn b3_every_move_inside_is_memmove_on_both_memories() {
    for (src, len) in places() {
        for dst in 0..=LEN - len {
            let mut expected = pattern();
            expected.copy_within(src..src + len, dst);
            let mut whole = flat();
            whole
                .copy_within(dst as u64, src as u64, len as u64)
                .unwrap();
            assert_eq!(bytes_of(&whole), expected);
            let (moved, bytes) = scattered(|b| b.copy_within(dst as u64, src as u64, len as u64));
            assert_eq!((moved, bytes), (Ok(()), expected), "{dst} {src} {len}");
        }
    }
}

#[test]
fn b3_named_moves_over_page_edges() {
    for (to, from, count) in [
        (4032_usize, 3968_usize, 256_usize),
        (3968, 4032, 256),
        (2048, 512, 2048),
        (512, 2048, 2048),
        (0, 3968, 256),
        (3968, 4224, 256),
    ] {
        let mut pages = [[0_u8; 4096]; 4];
        let mut expected = [0_u8; 16384];
        for (i, byte) in expected.iter_mut().enumerate() {
            *byte = u8::try_from((i * 31 + (i >> 8)) & 255).unwrap();
        }
        let memory = Scattered::new(&mut pages[..], 4096, 0, 16384).unwrap();
        let mut buffer = ExtentBuffer::zeroed(0, memory);
        buffer.write(0, &expected).unwrap();
        buffer
            .copy_within(to as u64, from as u64, count as u64)
            .unwrap();
        expected.copy_within(from..from + count, to);
        assert_eq!(buffer.compare(0, &expected), Ok(Ordering::Equal));
    }
}

#[test]
fn b6_reads_writes_fills_and_comparisons_agree() {
    for (offset, len) in places() {
        let at = offset as u64;
        let mut written = pattern();
        written[offset..offset + len].fill(0xa5);
        let source = [0xa5; LEN];
        let (answer, bytes) = scattered(|b| b.write(at, &source[..len]));
        assert_eq!((answer, bytes), (Ok(()), written));
        let (answer, bytes) = scattered(|b| b.fill(at, len as u64, 0xa5));
        assert_eq!((answer, bytes), (Ok(()), written));
        let mut whole = flat();
        whole.fill(at, len as u64, 0xa5).unwrap();
        assert_eq!(bytes_of(&whole), written);

        let expected = &pattern()[offset..offset + len];
        let mut read = [0; LEN];
        scattered(|b| b.read(at, &mut read[..len])).0.unwrap();
        assert_eq!(&read[..len], expected);
        let same = Ok(Ordering::Equal);
        assert_eq!(scattered(|b| b.compare(at, expected)).0, same);
        assert_eq!(flat().compare(at, expected), same);
        if len == 0 {
            continue;
        }
        // The first difference decides, whatever follows it.
        let mut other = pattern();
        other[offset + len / 2] += 1;
        other[offset + len - 1] = if len / 2 == len - 1 {
            other[offset + len - 1]
        } else {
            0
        };
        let other = &other[offset..offset + len];
        assert_eq!(scattered(|b| b.compare(at, other)).0, Ok(Ordering::Less));
        assert_eq!(flat().compare(at, other), Ok(Ordering::Less));
    }
}

#[test]
fn b6_integers_are_little_endian_over_page_edges() {
    for offset in 0..=LEN as u64 - 8 {
        let at = usize::try_from(offset).unwrap();
        let expected = u64::from_le_bytes(pattern()[at..at + 8].try_into().unwrap());
        assert_eq!(scattered(|b| b.get::<u64>(offset)).0, Ok(expected));
        assert_eq!(flat().get::<u64>(offset), Ok(expected));
        let narrow = u16::from_le_bytes(pattern()[at..at + 2].try_into().unwrap());
        assert_eq!(scattered(|b| b.get::<u16>(offset)).0, Ok(narrow));
        let mut written = pattern();
        written[at..at + 4].copy_from_slice(&0x1234_5678_u32.to_le_bytes());
        let (answer, bytes) = scattered(|b| b.set(offset, 0x1234_5678_u32));
        assert_eq!((answer, bytes), (Ok(()), written));
    }
}

#[test]
fn b6_every_range_of_bits_is_set_and_cleared_exactly() {
    const BITS: u64 = 8 * LEN as u64;
    for start in 0..BITS {
        for len in [0, 1, 2, 7, 8, 9, 63, 64, 65, 130, BITS - start] {
            if len > BITS - start {
                continue;
            }
            let mut expected = [[0_u8; LEN], [0xff; LEN]];
            for bit in start..start + len {
                let at = usize::try_from(bit / 8).unwrap();
                expected[0][at] |= 1 << (bit % 8);
                expected[1][at] &= !(1 << (bit % 8));
            }
            // The same bits, counted from an earlier byte.
            let (offset, bit) = (start / 16, start - start / 16 * 8);
            let ((), set) = scattered(|b| {
                b.zero(0, LEN as u64).unwrap();
                b.set_bits(offset, bit, len).unwrap();
            });
            let ((), cleared) = scattered(|b| {
                b.fill(0, LEN as u64, 0xff).unwrap();
                b.clear_bits(offset, bit, len).unwrap();
                assert_eq!(b.test_bit(offset, bit), Ok(len == 0));
            });
            assert_eq!([set, cleared], expected);
        }
    }
}

#[test]
fn b2_accesses_outside_are_refused_and_touch_nothing() {
    let len = LEN as u64;
    let mut into = [7; 8];
    for (offset, wanted) in [(len - 7, 8), (len, 1), (u64::MAX - 3, 8), (0, len + 1)] {
        let refused = Err(BufferError::OutOfRange {
            offset,
            len: wanted,
            block_len: LEN,
        });
        let (answer, bytes) = scattered(|b| {
            let all = [
                b.fill(offset, wanted, 1),
                b.zero(offset, wanted),
                b.copy_within(offset, 0, wanted),
                b.copy_within(0, offset, wanted),
            ];
            assert_eq!(all, [refused; 4]);
            b.write(offset, &vec_of(wanted)[..usize::try_from(wanted).unwrap()])
        });
        assert_eq!((answer, bytes), (refused, pattern()));
        if wanted == 8 {
            assert_eq!(flat().read(offset, &mut into), refused);
            assert_eq!(flat().compare(offset, &into).map(|_| ()), refused);
            assert_eq!(flat().set(offset, 1_u64), refused);
        }
    }
    assert_eq!(into, [7; 8]);
    assert_eq!(flat().read(len, &mut []), Ok(()));
    assert_eq!(flat().fill(len, 0, 1), Ok(()));
    assert!(flat().read(len + 1, &mut []).is_err());
    for (offset, bit, count) in [
        (len, 0, 1),
        (0, 8 * len, 1),
        (u64::MAX, 9, 0),
        (1, u64::MAX, 2),
    ] {
        assert!(flat().test_bit(offset, bit).is_err());
        assert!(flat().set_bits(offset, bit, count).is_err());
    }
    assert_eq!(flat().set_bits(0, 8 * len, 0), Ok(()));
    let short = ExtentBuffer::zeroed(0, Contiguous::new([0; 8]));
    assert!(flat().copy_whole(&short).is_err());
    assert!(flat().copy_from(0, &short, 4, 8).is_err());
}

/// As many bytes as the largest refused write.
fn vec_of(_: u64) -> [u8; LEN + 1] {
    [9; LEN + 1]
}

#[test]
fn b3_copies_between_buffers_cross_page_edges_on_both_sides() {
    for (src, len) in places().filter(|(src, _)| src % 3 == 0) {
        for dst in (0..=LEN - len).step_by(5) {
            let source = flat();
            let mut expected = [1; LEN];
            expected[dst..dst + len].copy_from_slice(&pattern()[src..src + len]);
            let (answer, bytes) = scattered(|b| {
                b.fill(0, LEN as u64, 1).unwrap();
                b.copy_from(dst as u64, &source, src as u64, len as u64)
            });
            assert_eq!((answer, bytes), (Ok(()), expected));
            let mut target = flat();
            target.fill(0, LEN as u64, 1).unwrap();
            scattered(|b| target.copy_from(dst as u64, b, src as u64, len as u64))
                .0
                .unwrap();
            assert_eq!(bytes_of(&target), expected);
        }
    }
    let (clone, _) = scattered(|b| ExtentBuffer::cloned(7, Contiguous::new([0; LEN]), b).unwrap());
    assert_eq!(bytes_of(&clone), pattern());
    assert_eq!((clone.start(), clone.flags()), (7, BufferFlags::UPTODATE));
}

#[test]
fn b10_a_block_that_was_not_read_is_not_written() {
    let mut buffer = ExtentBuffer::unread(4096, Contiguous::new([3; LEN]));
    assert_eq!(buffer.write(0, &[1]), Err(BufferError::NotUptodate));
    assert_eq!(buffer.set_bits(0, 0, 1), Err(BufferError::NotUptodate));
    buffer.change_flags(BufferFlags::UPTODATE, BufferFlags::empty());
    assert_eq!(buffer.fill(0, 1, 1), Err(BufferError::NotUptodate));
    assert_eq!(buffer.fill_from_device(|_| Err("I/O")), Err("I/O"));
    assert_eq!(buffer.copy_within(0, 1, 1), Err(BufferError::NotUptodate));
    assert_eq!(bytes_of(&buffer), [3; LEN]);
    buffer
        .fill_from_device(|chunk| {
            chunk.fill(5);
            Ok::<(), ()>(())
        })
        .unwrap();
    assert_eq!(buffer.flags(), BufferFlags::UPTODATE);
    buffer.write(0, &[1]).unwrap();
    assert_eq!(buffer.flags(), BufferFlags::UPTODATE | BufferFlags::DIRTY);
    buffer.change_flags(BufferFlags::empty(), BufferFlags::UPTODATE);
    assert_eq!(buffer.write(0, &[1]), Err(BufferError::NotUptodate));
}

#[test]
fn b8_background_writeback_skips_a_held_block_and_a_sync_does_not() {
    let mut buffer = flat();
    assert!(buffer.wants_writeback(ForSync::No));
    buffer.change_flags(BufferFlags::HELD, BufferFlags::empty());
    assert!(!buffer.wants_writeback(ForSync::No));
    assert!(buffer.wants_writeback(ForSync::Yes));
    buffer.change_flags(BufferFlags::WRITEBACK, BufferFlags::empty());
    assert!(!buffer.wants_writeback(ForSync::Yes));
    let clean = BufferFlags::DIRTY | BufferFlags::WRITEBACK;
    buffer.change_flags(BufferFlags::empty(), clean);
    assert!(!buffer.wants_writeback(ForSync::Yes));
}

/// Adds bytes up, by their place; notes how often it was called.
struct Sum(u64, u64);

impl Checksum for Sum {
    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(31).wrapping_add(u64::from(*byte));
        }
        self.1 += 1;
    }
    fn finish(self) -> [u8; CSUM_BYTES] {
        let mut field = [0; CSUM_BYTES];
        field[..8].copy_from_slice(&self.0.to_le_bytes());
        field[31] = u8::try_from(self.1).unwrap();
        field
    }
}

#[test]
fn b5_a_checksum_is_one_call_where_contiguous_and_the_same_where_not() {
    let whole = flat().checksum(Sum(0, 0)).unwrap();
    let (pages, _) = scattered(|b| b.checksum(Sum(0, 0)).unwrap());
    assert_eq!(whole[..31], pages[..31]);
    assert_eq!((whole[31], pages[31]), (1, 1));
    let short = ExtentBuffer::zeroed(0, Contiguous::new([0; 31]));
    assert!(short.checksum(Sum(0, 0)).is_err());
    let mut three = [[0; PAGE]; 5];
    let memory = Scattered::new(&mut three[..], PAGE, 0, 5 * PAGE).unwrap();
    let calls = ExtentBuffer::zeroed(0, memory).checksum(Sum(0, 0)).unwrap()[31];
    assert_eq!(calls, 3);
}

#[test]
fn pages_that_cannot_hold_the_block_are_refused_by_name() {
    let mut pages = [[0_u8; PAGE]; 2];
    let mut refused = |size, first, len| Scattered::new(&mut pages[..], size, first, len).err();
    assert_eq!(refused(15, 0, 8), Some(ScatteredError::PageSize(15)));
    assert_eq!(refused(0, 0, 8), Some(ScatteredError::PageSize(0)));
    assert_eq!(
        refused(PAGE, PAGE, 8),
        Some(ScatteredError::FirstOffset(PAGE))
    );
    let held = 2 * PAGE - 4;
    let wanted = held + 1;
    assert_eq!(
        refused(PAGE, 4, wanted),
        Some(ScatteredError::TooFewPages { held, wanted })
    );
    assert_eq!(
        refused(PAGE, 4, usize::MAX),
        Some(ScatteredError::TooFewPages {
            held,
            wanted: usize::MAX
        })
    );
    assert_eq!(refused(32, 0, 8), Some(ScatteredError::PageLength(0, PAGE)));
    assert_eq!(refused(PAGE, 4, held), None);
}

#[test]
fn b3_memory_leaves_ranges_outside_it_alone_and_says_where_chunks_end() {
    let mut pages = [[1_u8; 8], [2; 8]];
    let mut memory = Scattered::new(&mut pages[..], 8, 2, 13).unwrap();
    for (dst, src, len) in [
        (0, usize::MAX, 1),
        (usize::MAX, 0, usize::MAX),
        (12, 0, 2),
        (0, 5, 9),
    ] {
        memory.move_range(dst, src, len);
    }
    assert_eq!(memory.chunk(0), [1; 6]);
    assert_eq!(memory.chunk(6), [2; 7]);
    for offset in [0, 5, 6, 12, 13, usize::MAX] {
        let chunk = memory.chunk(offset).len();
        assert_eq!(memory.contiguous_after(offset), chunk, "at {offset}");
    }
    memory.move_range(5, 6, 7);
    assert_eq!(memory.chunk(0), [1, 1, 1, 1, 1, 2]);
}
