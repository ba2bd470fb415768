//! How much longer a walk with all its checks takes than only reading the same
//! blocks and taking their checksums: `walk_ratio IMAGE`.
//!
//! Both read every copy of every block, in the same order, in turns; the lowest
//! time of each counts.

use std::cell::RefCell;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use extentwise_btrfs::{Heap, Image, ImageFile, ReadAt};

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
    let blocks: Vec<u64> = reads
        .into_iter()
        .filter(|&(_, len)| len == nodesize)
        .map(|(offset, _)| offset)
        .collect();

    let mut bytes = vec![0; nodesize];
    let (mut plain, mut walk) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for &offset in &blocks {
            file.read_exact_at(offset, &mut bytes)?;
            black_box(superblock.csum.of_bytes(&bytes[32..]));
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
        blocks.len(),
        walk.as_secs_f64() / plain.as_secs_f64()
    );
    Ok(())
}

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
