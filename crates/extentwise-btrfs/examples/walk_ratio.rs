//! How much longer a walk with all its checks takes than only reading the same
//! blocks and taking their checksums: `walk_ratio IMAGE`.
//!
//! Both read every copy of every block, by the same calls in the same order, and
//! do so in turns; the lowest time of each counts.

use std::cell::RefCell;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use extentwise_btrfs::{Heap, Image, ImageFile, ReadAt};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const ROUNDS: u32 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("an image is needed")?;
    let file = ImageFile::open(Path::new(&path))?;
    let trace = Trace {
        file: &file,
        reads: RefCell::default(),
    };
    let traced = Image::open(&trace, &mut Heap::default())?;
    let report = traced.check(&mut Heap::default(), &mut |_| {});
    let superblock = traced.superblock().clone();
    let nodesize = superblock.nodesize as usize;
    let reads = trace.reads.take();
    let reads: Vec<_> = reads
        .into_iter()
        .filter(|&(_, len)| len.is_multiple_of(nodesize))
        .collect();

    let longest = reads.iter().map(|&(_, len)| len).max().unwrap_or(0);
    let mut pages = vec![Page([0; 4096]); longest.div_ceil(4096)];
    let bytes = pages.as_mut_slice().as_mut_bytes();
    let (mut plain, mut walk) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for &(offset, len) in &reads {
            file.read_exact_at(offset, &mut bytes[..len])?;
            for block in bytes[..len].chunks_exact(nodesize) {
                black_box(superblock.csum.of_bytes(&block[32..]));
            }
        }
        plain = plain.min(started.elapsed());
        let started = Instant::now();
        let mut pool = Heap::default();
        black_box(Image::open(&file, &mut pool)?.check(&mut pool, &mut |_| {}));
        walk = walk.min(started.elapsed());
    }
    println!(
        "{} blocks in {} reads: walk {walk:.2?}, reading and checksums alone {plain:.2?}, ratio {:.2}",
        report.distinct,
        reads.len(),
        walk.as_secs_f64() / plain.as_secs_f64()
    );
    Ok(())
}

/// Aligned as the walk's own memory is.
#[derive(Clone, FromBytes, Immutable, IntoBytes)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

/// Notes what is read.
struct Trace<'a> {
    file: &'a ImageFile,
    reads: RefCell<Vec<(u64, usize)>>,
}

impl ReadAt for Trace<'_> {
    fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.reads.borrow_mut().push((offset, into.len()));
        self.file.read_exact_at(offset, into)
    }
}
