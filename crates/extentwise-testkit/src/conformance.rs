//! What every device must do (C7).

use extentwise_device::{
    Device, DeviceError, DiskByte, ErrorClass, LenBytes, read_exact, write_all,
};

use crate::seed;

/// Blocks that a device under test has at the least, where it has a capacity.
pub const BLOCKS_MIN: u64 = 64;

/// Holds a device to the rules of [`Device`]; panics with the rule that it
/// breaks.
///
/// `make` is called for each check and answers a device that may be written. One
/// without a capacity is empty at first; one with a capacity has at least
/// [`BLOCKS_MIN`] blocks, which may hold anything. Operations that are optional
/// may be unsupported, but not half done.
///
/// ```
/// use extentwise_device::DeviceGeometry;
/// use extentwise_testkit::conformance::device_conformance;
/// use extentwise_testkit::device::MemoryDevice;
///
/// let geometry = DeviceGeometry::new(512, 4096).unwrap();
/// device_conformance(|| MemoryDevice::new(geometry));
/// ```
pub fn device_conformance<D: Device>(mut make: impl FnMut() -> D) {
    for check in CHECKS {
        check(&Subject::new(&make()));
    }
}

/// Each for a device of its own.
const CHECKS: [fn(&Subject<'_>); 12] = [
    reads_answer_the_last_write,
    one_call_says_what_it_took,
    many_buffers_are_one_stretch,
    calls_without_bytes_do_nothing,
    the_end_is_short_for_reads,
    the_end_is_no_space_for_writes,
    holes_read_as_zeros,
    addresses_past_the_last_are_refused,
    what_is_not_aligned_is_done_or_denied,
    flush_answers_well,
    zeroes_are_exact_or_unsupported,
    discard_keeps_to_its_range_or_is_unsupported,
];

/// The device under test and its sizes.
struct Subject<'d> {
    device: &'d dyn Device,
    /// Bytes of a logical block.
    block: usize,
}

impl<'d> Subject<'d> {
    fn new(device: &'d dyn Device) -> Self {
        let geometry = device.geometry();
        let subject = Self {
            device,
            block: geometry.logical_block() as usize,
        };
        if let Some(capacity) = geometry.capacity() {
            let least = BLOCKS_MIN * subject.block as u64;
            assert!(
                capacity.get() >= least,
                "capacity {capacity}: a device under test has at least {least}"
            );
        }
        subject
    }

    /// A length of blocks.
    fn blocks(&self, count: usize) -> usize {
        count * self.block
    }

    /// The address of a block.
    fn at(&self, block: usize) -> DiskByte {
        DiskByte::new(self.blocks(block) as u64)
    }

    #[track_caller]
    fn put(&self, block: usize, bytes: &[u8]) {
        let at = self.at(block);
        let done = write_all(self.device, at, &[bytes]);
        let len = bytes.len();
        assert!(done.is_ok(), "writing {len} bytes at {at}: {done:?}");
    }

    #[track_caller]
    fn get(&self, block: usize, blocks: usize) -> Vec<u8> {
        let mut bytes = vec![0xa5; self.blocks(blocks)];
        let at = self.at(block);
        let done = read_exact(self.device, at, &mut bytes);
        assert!(done.is_ok(), "reading {blocks} blocks at {at}: {done:?}");
        bytes
    }

    /// Bytes that nobody wrote before: those of the seed, none of them zero.
    fn fill(&self, seed: u64, blocks: usize) -> Vec<u8> {
        let bytes = seed::bytes(seed, self.blocks(blocks));
        bytes.into_iter().map(|byte| byte | 1).collect()
    }

    #[track_caller]
    fn assert_moved(&self, moved: LenBytes, asked: usize, doing: &str) {
        let geometry = self.device.geometry();
        assert!(
            moved.get() <= asked as u64,
            "{doing}: {moved} of {asked} bytes, more than asked"
        );
        if let Some(max) = geometry.transfer_max() {
            assert!(
                moved <= max,
                "{doing}: {moved} bytes, largest transfer {max}"
            );
        }
        assert!(
            moved.get().is_multiple_of(self.block as u64) || moved.get() == asked as u64,
            "{doing}: {moved} bytes are not whole blocks of {}",
            self.block
        );
    }
}

/// Compares stretches without printing all of them.
#[track_caller]
fn assert_same(read: &[u8], expected: &[u8], what: &str) {
    let differing = read.iter().zip(expected).position(|(a, b)| a != b);
    if let Some(place) = differing {
        let (read, expected) = (read[place], expected[place]);
        panic!("{what}: byte {place} is {read:#04x}, expected {expected:#04x}");
    }
    assert_eq!(read.len(), expected.len(), "{what}: length");
}

/// Answers a class from a list, or the panic says what came instead.
#[track_caller]
fn assert_class(answer: Result<LenBytes, DeviceError>, classes: &[ErrorClass], what: &str) {
    match answer {
        Err(error) if classes.contains(&error.class()) => {}
        other => panic!("{what}: answered {other:?}, expected one of {classes:?}"),
    }
}

fn reads_answer_the_last_write(subject: &Subject<'_>) {
    const BLOCKS: usize = 48;
    let geometry = subject.device.geometry();
    let mut expected = subject.fill(1, BLOCKS);
    subject.put(0, &expected);
    let mut state = 2;
    let mut below = |end: usize| usize::try_from(seed::next(&mut state) % end as u64).unwrap_or(0);
    for round in 0..400_u64 {
        let start = below(BLOCKS);
        let count = 1 + below((BLOCKS - start).min(9));
        let bytes = subject.fill(100 + round, count);
        // Split at three places, some of which fall together.
        let mut cuts = [0; 3].map(|_| subject.blocks(below(count + 1)));
        cuts.sort_unstable();
        let [a, b, c] = cuts;
        let range = subject.blocks(start)..subject.blocks(start + count);
        if below(2) == 0 {
            let parts = [&bytes[..a], &bytes[a..b], &[], &bytes[b..c], &bytes[c..]];
            let done = write_all(subject.device, subject.at(start), &parts);
            assert!(done.is_ok(), "write of {count} blocks at {start}: {done:?}");
            expected[range].copy_from_slice(&bytes);
        } else {
            let read = subject.get(start, count);
            assert_same(&read, &expected[range], "a read answers the last write");
        }
        if below(16) == 0 {
            assert_eq!(subject.device.flush(), Ok(()), "flush");
        }
    }
    assert_same(&subject.get(0, BLOCKS), &expected, "all that was written");
    assert_eq!(
        subject.device.geometry(),
        geometry,
        "the geometry stays the same"
    );
}

fn one_call_says_what_it_took(subject: &Subject<'_>) {
    for count in [1, 2, 3, 8, 33] {
        let old = subject.fill(1, 40);
        let new = subject.fill(2, count);
        subject.put(0, &old);
        let len = new.len();
        let doing = format!("one write of {count} blocks");
        let taken = subject.device.write(subject.at(4), &[&new]);
        let taken = taken.unwrap_or_else(|error| panic!("{doing}: {error}"));
        subject.assert_moved(taken, len, &doing);
        assert!(!taken.is_zero(), "{doing}: a device with room takes some");
        let taken = usize::try_from(taken.get()).unwrap_or(len);
        let mut expected = old.clone();
        let start = subject.blocks(4);
        expected[start..start + taken].copy_from_slice(&new[..taken]);
        assert_same(&subject.get(0, 40), &expected, &doing);

        let doing = format!("one read of {count} blocks");
        let mut buffer = vec![0; len];
        let read = subject.device.read(subject.at(4), &mut [&mut buffer]);
        let read = read.unwrap_or_else(|error| panic!("{doing}: {error}"));
        subject.assert_moved(read, len, &doing);
        assert!(!read.is_zero(), "{doing}: zero only at the end");
        let read = usize::try_from(read.get()).unwrap_or(len);
        assert_same(&buffer[..read], &expected[start..start + read], &doing);
    }
}

fn many_buffers_are_one_stretch(subject: &Subject<'_>) {
    // More than an operating system takes in a call (1024 on Linux), most empty.
    let bytes = subject.fill(3, 40);
    let blocks = bytes.chunks(subject.block);
    let sparse: Vec<&[u8]> = blocks
        .flat_map(|block| [&[][..]; 60].into_iter().chain([block]))
        .collect();
    let taken = subject.device.write(subject.at(0), &sparse);
    let taken = taken.unwrap_or_else(|error| panic!("2440 buffers: {error}"));
    subject.assert_moved(taken, bytes.len(), "2440 buffers, most empty");
    assert!(!taken.is_zero(), "2440 buffers: empty ones hide none");
    let done = write_all(subject.device, subject.at(0), &sparse);
    assert!(done.is_ok(), "2440 buffers: {done:?}");
    assert_same(&subject.get(0, 40), &bytes, "2440 buffers");

    let mut read = vec![0; bytes.len()];
    let mut parts: Vec<&mut [u8]> = Vec::new();
    for block in read.chunks_mut(subject.block) {
        parts.extend((0..60).map(|_| &mut [][..]));
        parts.push(block);
    }
    let filled = subject.device.read(subject.at(0), &mut parts);
    let filled = filled.unwrap_or_else(|error| panic!("read of 2440 buffers: {error}"));
    subject.assert_moved(filled, bytes.len(), "read of 2440 buffers");
    assert!(!filled.is_zero(), "read of 2440 buffers: not at the end");
    let filled = usize::try_from(filled.get()).unwrap_or(bytes.len());
    assert_same(&read[..filled], &bytes[..filled], "read of 2440 buffers");
}

fn calls_without_bytes_do_nothing(subject: &Subject<'_>) {
    let device = subject.device;
    let bytes = subject.fill(1, 4);
    subject.put(0, &bytes);
    for block in [0, 2, 4] {
        let at = subject.at(block);
        let zero = Ok(LenBytes::ZERO);
        assert_eq!(device.write(at, &[]), zero, "write of no buffers");
        assert_eq!(device.write(at, &[&[], &[]]), zero, "write of empty ones");
        assert_eq!(device.read(at, &mut []), zero, "read into no buffers");
        let read = device.read(at, &mut [&mut [], &mut []]);
        assert_eq!(read, zero, "read into empty ones");
        for done in [
            device.write_zeroes(at, LenBytes::ZERO),
            device.discard(at, LenBytes::ZERO),
        ] {
            let unsupported = Err(DeviceError::UNSUPPORTED);
            assert!(done == Ok(()) || done == unsupported, "no bytes: {done:?}");
        }
    }
    assert_same(&subject.get(0, 4), &bytes, "calls without bytes");
    if device.geometry().capacity().is_none() {
        let mut behind = vec![0; subject.block];
        let read = device.read(subject.at(4), &mut [&mut behind]);
        assert_eq!(read, Ok(LenBytes::ZERO), "they do not move the end");
    }
}

fn the_end_is_short_for_reads(subject: &Subject<'_>) {
    let device = subject.device;
    let block = subject.block as u64;
    let end = if let Some(capacity) = device.geometry().capacity() {
        capacity.get() - capacity.get() % block
    } else {
        subject.put(0, &subject.fill(1, 8));
        8 * block
    };
    let last = subject.fill(2, 2);
    let at = DiskByte::new(end - 2 * block);
    let done = write_all(device, at, &[&last]);
    assert!(done.is_ok(), "writing the last two blocks: {done:?}");

    let mut buffer = vec![0xa5; subject.blocks(4)];
    let mut filled = 0;
    while filled < last.len() {
        let at = DiskByte::new(at.get() + filled as u64);
        let rest = &mut buffer[filled..];
        let len = rest.len();
        let read = device.read(at, &mut [rest]);
        let read = read.unwrap_or_else(|error| panic!("a read across the end: {error}"));
        subject.assert_moved(read, len, "a read across the end");
        assert!(!read.is_zero(), "a read in front of the end answers zero");
        filled += usize::try_from(read.get()).unwrap_or(len);
    }
    assert_eq!(filled, last.len(), "a read across the end stops there");
    assert_same(&buffer[..filled], &last, "a read across the end");
    for past in [0, block, 1000 * block] {
        let at = DiskByte::new(end.saturating_add(past));
        let read = device.read(at, &mut [&mut buffer]);
        assert_eq!(read, Ok(LenBytes::ZERO), "a read {past} bytes past the end");
    }
}

fn the_end_is_no_space_for_writes(subject: &Subject<'_>) {
    let device = subject.device;
    let block = subject.block as u64;
    let Some(capacity) = device.geometry().capacity() else {
        return;
    };
    let end = capacity.get() - capacity.get() % block;
    let bytes = subject.fill(3, 3);
    let at = DiskByte::new(end - block);
    // It takes the block that there is, or says that there is no room.
    match device.write(at, &[&bytes]) {
        Ok(taken) => assert_eq!(taken.get(), block, "a write across the end"),
        answer => assert_class(answer, &[ErrorClass::NoSpace], "a write across the end"),
    }
    for past in [0, block, 1000 * block] {
        let Some(at) = end.checked_add(past) else {
            continue;
        };
        let answer = device.write(DiskByte::new(at), &[&bytes]);
        assert_class(answer, &[ErrorClass::NoSpace], "a write past the capacity");
    }
    let error = write_all(device, at, &[&bytes]).map(|done| done.bytes);
    assert_class(error, &[ErrorClass::NoSpace], "write_all across the end");
    let read = device.read(DiskByte::new(end), &mut [&mut vec![0; subject.block]]);
    assert_eq!(read, Ok(LenBytes::ZERO), "the end has not moved");
}

fn holes_read_as_zeros(subject: &Subject<'_>) {
    if subject.device.geometry().capacity().is_some() {
        return;
    }
    let bytes = subject.fill(4, 2);
    // Further than a device with 32-bit addresses reaches.
    let far = (8_u64 << 30).next_multiple_of(subject.block as u64);
    let done = write_all(subject.device, DiskByte::new(far), &[&bytes]);
    assert!(done.is_ok(), "writing at {far}: {done:?}");
    let mut read = vec![0xa5; subject.blocks(3)];
    let before = DiskByte::new(far - subject.block as u64);
    let done = read_exact(subject.device, before, &mut read);
    assert!(done.is_ok(), "reading at {before}: {done:?}");
    let (hole, written) = read.split_at(subject.block);
    assert_same(hole, &vec![0; subject.block], "the hole in front");
    assert_same(written, &bytes, "64-bit addresses");
    let start = subject.get(0, 2);
    assert_same(&start, &vec![0; start.len()], "the hole at the start");
}

fn addresses_past_the_last_are_refused(subject: &Subject<'_>) {
    let device = subject.device;
    let block = subject.block as u64;
    let bytes = subject.fill(1, 4);
    subject.put(0, &bytes);
    let refusals = [ErrorClass::NoSpace, ErrorClass::TooLarge];
    for blocks_before in [1, 2, 3] {
        let at = DiskByte::new(
            (u64::MAX - u64::MAX % block).saturating_sub(block * (blocks_before - 1)),
        );
        match device.write(at, &[&bytes]) {
            Ok(taken) => assert!(
                at.checked_add(taken).is_some(),
                "a write across address 2^64: {taken} bytes taken"
            ),
            refused => assert_class(refused, &refusals, "a write across address 2^64"),
        }
        let mut buffer = bytes.clone();
        match device.read(at, &mut [&mut buffer]) {
            Ok(read) => assert!(
                at.checked_add(read).is_some(),
                "a read across address 2^64: {read} bytes read"
            ),
            answer => assert_class(answer, &refusals, "a read across address 2^64"),
        }
        let len = LenBytes::new(4 * block);
        let refusals = [
            ErrorClass::NoSpace,
            ErrorClass::TooLarge,
            ErrorClass::Unsupported,
        ];
        let zeroed = device.write_zeroes(at, len).map(|()| len);
        assert_class(zeroed, &refusals, "zeroes across address 2^64");
        let discarded = device.discard(at, len).map(|()| len);
        assert_class(discarded, &refusals, "a discard across address 2^64");
    }
    assert_same(&subject.get(0, 4), &bytes, "no address wraps");
}

fn what_is_not_aligned_is_done_or_denied(subject: &Subject<'_>) {
    if subject.block == 1 {
        return;
    }
    let device = subject.device;
    let half = subject.block / 2;
    let new = subject.fill(2, 2);
    for (at, len) in [(half, subject.block), (0, half), (half, half), (1, 1)] {
        let old = subject.fill(1, 4);
        subject.put(0, &old);
        let mut expected = old.clone();
        let place = DiskByte::new(at as u64);
        match device.write(place, &[&new[..len]]) {
            Ok(taken) => {
                let taken = usize::try_from(taken.get()).unwrap_or(usize::MAX);
                assert!(taken <= len, "{len} bytes at {at}: {taken} taken");
                expected[at..at + taken].copy_from_slice(&new[..taken]);
            }
            denied => assert_class(denied, &[ErrorClass::Denied], "an unaligned write"),
        }
        assert_same(&subject.get(0, 4), &expected, "around an unaligned write");
        let mut buffer = vec![0; len];
        match device.read(place, &mut [&mut buffer]) {
            Ok(read) => {
                let read = usize::try_from(read.get()).unwrap_or(usize::MAX);
                assert!(read <= len, "{len} bytes at {at}: {read} read");
                assert_same(&buffer[..read], &expected[at..at + read], "unaligned");
            }
            denied => assert_class(denied, &[ErrorClass::Denied], "an unaligned read"),
        }
    }
}

fn flush_answers_well(subject: &Subject<'_>) {
    assert_eq!(subject.device.flush(), Ok(()), "a flush of nothing");
    let bytes = subject.fill(1, 3);
    subject.put(1, &bytes);
    assert_same(
        &subject.get(1, 3),
        &bytes,
        "reads see writes before a flush",
    );
    assert_eq!(subject.device.flush(), Ok(()), "a flush");
    assert_eq!(subject.device.flush(), Ok(()), "a second flush");
    assert_same(&subject.get(1, 3), &bytes, "a flush changes nothing");
}

fn zeroes_are_exact_or_unsupported(subject: &Subject<'_>) {
    for (start, count) in [(0, 1), (3, 5), (7, 9), (0, 16)] {
        let mut expected = subject.fill(1, 16);
        subject.put(0, &expected);
        let len = LenBytes::new(subject.blocks(count) as u64);
        match subject.device.write_zeroes(subject.at(start), len) {
            Ok(()) => expected[subject.blocks(start)..subject.blocks(start + count)].fill(0),
            refused => assert_eq!(refused, unsupported(refused), "write_zeroes"),
        }
        assert_same(&subject.get(0, 16), &expected, "around write_zeroes");
    }
}

fn discard_keeps_to_its_range_or_is_unsupported(subject: &Subject<'_>) {
    for (start, count) in [(0, 1), (3, 5), (7, 8)] {
        let expected = subject.fill(1, 16);
        subject.put(0, &expected);
        let len = LenBytes::new(subject.blocks(count) as u64);
        let inside = subject.blocks(start)..subject.blocks(start + count);
        let mut read = match subject.device.discard(subject.at(start), len) {
            Ok(()) => {
                let mut read = subject.get(0, 16);
                read[inside.clone()].copy_from_slice(&expected[inside]);
                read
            }
            refused => {
                assert_eq!(refused, unsupported(refused), "discard");
                subject.get(0, 16)
            }
        };
        assert_same(&read, &expected, "around a discard");
        let again = subject.fill(2, count);
        subject.put(start, &again);
        read = subject.get(start, count);
        assert_same(&read, &again, "a discarded block that is written again");
    }
}

/// The refusal itself, with whatever number the system gave it, if its class is
/// the one of what a device does not have.
fn unsupported(answer: Result<(), DeviceError>) -> Result<(), DeviceError> {
    answer.map_err(|error| match error.class() {
        ErrorClass::Unsupported => error,
        _ => DeviceError::UNSUPPORTED,
    })
}

#[cfg(test)]
mod tests;
