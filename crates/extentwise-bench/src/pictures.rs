//! What is drawn for the documentation and the terminal.

use anyhow::Result;
use extentwise_core::writeback::Stride;

use crate::bits::Shape;
use crate::chart::histogram;
use crate::chart::svg::{Series, over_folio_size};
use crate::group::cached::Cached;
use crate::mount::{Kind, Medium, Mount, file_written_by};
use crate::paired::{median, time};
use crate::pass::{BLOCK, BLOCKS, Passes};
use crate::pin::pinned;
use crate::write::{FullWalk, Overwrite};

/// Times that a point is the median of.
const TIMES: usize = 51;

/// The distribution of single passes, block by block against extent by extent.
pub(crate) fn histograms() -> String {
    let mut passes = Passes::new(Shape::Full, BLOCKS);
    let mut times = |stride| -> Vec<u64> {
        let one = |_| passes.time(stride, 1) as u64;
        (0..4000).map(one).collect()
    };
    let (block, extent) = (times(Stride::Block), times(Stride::Extent));
    histogram::text(
        "deciding a 2 MiB folio, all dirty, one extent: block by block",
        &block,
    ) + "\n"
        + &histogram::text(
            "the same extent by extent (reading the clock is in it)",
            &extent,
        )
}

/// Pictures by the names of their files.
pub(crate) fn svgs() -> Result<Vec<(&'static str, String)>> {
    let (stepped, by_extent) = (deciding(Stride::Block), deciding(Stride::Extent));
    let sizes: Vec<u64> = sizes().map(|blocks| blocks as u64 * BLOCK).collect();
    let linear = sizes.iter().map(|size| {
        let smallest = by_extent.first().map_or(1.0, |(_, nanos)| *nanos);
        (*size, smallest * (*size as f64 / sizes[0] as f64))
    });
    let linear = Series::new("linear in words", linear.collect());
    Ok(vec![
        (
            "deciding.svg",
            over_folio_size(
                "Deciding a dirty folio of one extent",
                &[
                    Series::new("block by block", stepped),
                    Series::new("extent by extent", by_extent.clone()),
                ],
            ),
        ),
        (
            "growth.svg",
            over_folio_size(
                "Growth of the pass extent by extent, 64 blocks a word",
                &[Series::new("extent by extent", by_extent), linear],
            ),
        ),
        (
            "overwrite.svg",
            over_folio_size("Overwriting 1 KiB that is cached", &overwrites()?),
        ),
    ])
}

/// Blocks of folios from 64 KiB, one word, to 16 MiB.
fn sizes() -> impl Iterator<Item = usize> {
    (4..=12).map(|power| 1 << power)
}

fn deciding(stride: Stride) -> Vec<(u64, f64)> {
    sizes()
        .map(|blocks| {
            let mut passes = Passes::sized(blocks, Shape::Full);
            let times = (0..TIMES).map(|_| passes.time(stride, 16));
            (blocks as u64 * BLOCK, median(times.collect()))
        })
        .collect()
}

fn overwrites() -> Result<Vec<Series>> {
    let sizes = || (0..=12).map(|power| 1_usize << power);
    let mut walks = Vec::new();
    let mut full_walks = Vec::new();
    let mut handles = Vec::new();
    for blocks in sizes() {
        let bytes = blocks as u64 * BLOCK;
        let mut overwrite = Overwrite::new(blocks);
        walks.push((bytes, of_times(|| overwrite.write())));
        let mut walk = FullWalk::new(blocks);
        full_walks.push((bytes, of_times(|| walk.write())));
        let cached = Cached::new(1, bytes)?;
        let file = &cached.files[0];
        let nanos = pinned(0, || {
            of_times(|| assert!(file.write_at(1024, &[0xa5; 1024]).is_ok()))
        });
        handles.push((bytes, nanos));
    }
    let mut all = vec![
        Series::new("begin and end alone", walks),
        Series::new("a full walk alone", full_walks),
        Series::new("through a handle", handles),
    ];
    for kind in [Kind::Ext4, Kind::Xfs] {
        match kernel(kind) {
            Ok(points) => all.push(Series::new(format!("pwrite, {}", kind.name()), points)),
            Err(error) => println!("NOT DRAWN: {}: {error:#}", kind.name()),
        }
    }
    Ok(all)
}

/// The kernel's folios are as large as the calls that wrote the file.
fn kernel(kind: Kind) -> Result<Vec<(u64, f64)>> {
    use std::os::unix::fs::FileExt;
    let mount = Mount::new(kind, 512 << 20, Medium::Memory)?;
    [4096_usize, 65536, 2 << 20]
        .into_iter()
        .map(|call| {
            let path = mount.root().join(call.to_string());
            let file = file_written_by(&path, 16 << 20, call)?;
            let nanos = pinned(0, || {
                of_times(|| assert!(file.write_all_at(&[0xa5; 1024], 1024).is_ok()))
            });
            Ok((call as u64, nanos))
        })
        .collect()
}

fn of_times(mut work: impl FnMut()) -> f64 {
    let times = (0..TIMES).map(|_| time(200, &mut work));
    median(times.collect())
}
