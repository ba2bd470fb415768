//! More data than there is memory, on a device that keeps none of it: every byte
//! depends on its place, so the device can check what comes and make it again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use extentwise::device::{Device, DeviceError, DeviceGeometry, DiskByte};
use extentwise::engine::FileOffset;
use extentwise::{
    BlockSize, Config, ErrorClass, FileId, Host, Identity, LenBytes, PageCache, Setup,
};

const BLOCK: u64 = 4096;
const CACHE: u64 = 64 << 20;
const WRITERS: u64 = 4;

fn word(index: u64) -> u64 {
    (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The bytes from `at`, a multiple of 8, on.
fn fill(at: u64, into: &mut [u8]) {
    for (index, word_bytes) in (at / 8..).zip(into.chunks_mut(8)) {
        word_bytes.copy_from_slice(&word(index).to_le_bytes()[..word_bytes.len()]);
    }
}

fn is_right(at: u64, bytes: &[u8]) -> bool {
    let mut words = (at / 8..).zip(bytes.chunks(8));
    words.all(|(index, bytes)| *bytes == word(index).to_le_bytes()[..bytes.len()])
}

/// Remembers which blocks were written.
struct Blank {
    written: Vec<AtomicU64>,
    wrong: AtomicU64,
}

impl Blank {
    fn is_written(&self, block: u64) -> bool {
        let bits = self.written.get(block as usize / 64);
        bits.is_some_and(|bits| bits.load(Ordering::Relaxed) >> (block % 64) & 1 == 1)
    }
}

impl Device for Blank {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry::new(512, 4096).expect("powers of two")
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let mut place = at.get();
        for buffer in buffers {
            for block in buffer.chunks_mut(BLOCK as usize) {
                if self.is_written(place / BLOCK) {
                    fill(place, block);
                } else {
                    block.fill(0);
                }
                place += block.len() as u64;
            }
        }
        Ok(LenBytes::new(place - at.get()))
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let mut place = at.get();
        for block in buffers
            .iter()
            .flat_map(|buffer| buffer.chunks(BLOCK as usize))
        {
            if !is_right(place, block) {
                self.wrong.fetch_add(1, Ordering::Relaxed);
            }
            let block_nth = place / BLOCK;
            let bits = self.written.get(block_nth as usize / 64);
            let bits = bits.ok_or(ErrorClass::NoSpace)?;
            bits.fetch_or(1 << (block_nth % 64), Ordering::Relaxed);
            place += block.len() as u64;
        }
        Ok(LenBytes::new(place - at.get()))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

struct One(Blank);

impl Host<Identity> for One {
    type Device = Blank;

    fn device(&self, _: FileId) -> Result<&Blank, DeviceError> {
        Ok(&self.0)
    }

    fn persist(&self, mapping: &mut Identity, file: FileId) -> Result<(), DeviceError> {
        mapping.take_pending(file);
        Ok(())
    }
}

/// Writes `len` bytes by threads that share a cache of 64 MiB, reads a part of
/// them back, and looks at the memory meanwhile.
pub(crate) fn write(len: u64) {
    let config = Config::new(BlockSize::new(BLOCK).expect("a power of two"))
        .with_cache_bytes(LenBytes::new(CACHE));
    let mut mapping = Identity::new();
    mapping.add(FileId(0), FileOffset::ZERO);
    let blank = Blank {
        written: (0..len.div_ceil(BLOCK * 64))
            .map(|_| AtomicU64::new(0))
            .collect(),
        wrong: AtomicU64::new(0),
    };
    let cache = PageCache::new(Setup::new(config), mapping, One(blank)).expect("sound");
    let file = cache.open(FileId(0), FileOffset::ZERO).expect("known");
    file.resize(len).expect("nothing fails");
    let part = len / WRITERS;
    thread::scope(|scope| {
        for nth in 0..WRITERS {
            let (file, cache) = (&file, &cache);
            scope.spawn(move || {
                let mut bytes = vec![0; 1 << 20];
                for at in (nth * part..(nth + 1) * part).step_by(bytes.len()) {
                    fill(at, &mut bytes);
                    file.write_at(at, &bytes).expect("nothing fails");
                    if at % (64 << 20) == 0 {
                        let held = cache.blocks();
                        assert!(held.total().get() <= CACHE, "{held:?}");
                        assert!(held.dirty.get() <= CACHE / 2, "{held:?}");
                    }
                }
            });
        }
    });
    file.sync().expect("nothing fails");
    let blank = &cache.host().0;
    assert_eq!(
        blank.wrong.load(Ordering::Relaxed),
        0,
        "blocks came with other bytes"
    );
    let blocks = blank
        .written
        .iter()
        .map(|bits| bits.load(Ordering::Relaxed).count_ones());
    assert_eq!(blocks.map(u64::from).sum::<u64>(), len / BLOCK);
    let mut bytes = vec![0; 64 << 10];
    for at in (0..len).step_by(bytes.len() * 97) {
        assert_eq!(
            file.read_at(at, &mut bytes),
            Ok(bytes.len().min((len - at) as usize))
        );
        assert!(is_right(at, &bytes), "a read at {at} differs");
    }
    file.close().expect("nothing is dirty");
}
