//! Tiny btrfs images with bytes changed and checksums made right again.

use std::fmt::Write as _;

use extentwise_btrfs::synthetic::{Copies, NODESIZE, Synthetic, at};
use extentwise_btrfs::{Backing, Heap, Image, NodeBlocks, Report, SUPERBLOCK_LEN};

/// Bytes of a change: the block, the byte in it, and what that byte becomes.
const CHANGE_LEN: usize = 4;
const CHANGES_MAX: usize = 64;

/// An image with any bytes changed is either refused in words or walked to a
/// report, which is the same through scattered memory; it is sound if nothing was
/// changed. Checksums fit, so that what is behind them is reached.
///
/// # Panics
///
/// Where that does not hold.
pub fn btrfs_image(data: &[u8]) {
    let image = image_of(data);
    let mut pool = Heap::default();
    let opened = match Image::open(image.bytes.as_slice(), &mut pool) {
        Ok(opened) => opened,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let report = opened.check(&mut pool, &mut |_| {});
    for bad in &report.bad {
        assert!(!bad.reason.to_string().is_empty(), "{bad:?}");
    }
    let mut pages = NodeBlocks::new(Backing::Scattered);
    let scattered = opened.check(&mut pages, &mut |_| {});
    assert_eq!(summary(&report), summary(&scattered));
    // No block counts twice.
    assert!(report.distinct <= at::ALL.len() as u64, "{report:?}");
    for bytenr in at::ALL {
        if let Ok(view) = opened.block(bytenr, &mut pool) {
            assert_eq!(view.bytes.len(), opened.superblock().nodesize as usize);
        }
    }
    if image.bytes == Synthetic::new(copies_of(data)).bytes {
        assert!(report.is_sound(), "{:?}", report.bad);
    }
}

/// The changes, one a line, and what comes of them.
pub(super) fn describe(data: &[u8]) -> String {
    let mut text = format!("{:?}\n", copies_of(data));
    for change in changes(data) {
        let _ = writeln!(text, "{change:?}");
    }
    let image = image_of(data);
    let mut pool = Heap::default();
    match Image::open(image.bytes.as_slice(), &mut pool) {
        Err(error) => text + &error.to_string(),
        Ok(opened) => {
            let report = opened.check(&mut pool, &mut |_| {});
            report
                .bad
                .iter()
                .fold(text, |text, bad| text + &format!("{bad}\n"))
        }
    }
}

/// A byte that is changed.
#[derive(Debug)]
struct Change {
    /// The superblock is 0.
    block: usize,
    offset: usize,
    value: u8,
}

fn image_of(data: &[u8]) -> Synthetic {
    let mut image = Synthetic::new(copies_of(data));
    for Change {
        block,
        offset,
        value,
    } in changes(data)
    {
        let bytes = match block.checked_sub(1) {
            None => image.superblock_mut(),
            Some(index) => image.block_mut(at::ALL[index], 1),
        };
        bytes[offset] = value;
    }
    image.seal();
    image
}

fn copies_of(data: &[u8]) -> Copies {
    match data.first() {
        Some(byte) if byte % 2 == 1 => Copies::Dup,
        _ => Copies::Single,
    }
}

fn changes(data: &[u8]) -> impl Iterator<Item = Change> {
    const { assert!(NODESIZE == SUPERBLOCK_LEN) };
    let rest = data.get(1..).unwrap_or_default();
    let parts = rest.chunks_exact(CHANGE_LEN).take(CHANGES_MAX);
    parts.map(|part| Change {
        block: usize::from(part[0]) % (at::ALL.len() + 1),
        // Most of what is looked at lies near the beginning.
        offset: usize::from(u16::from_le_bytes([part[1], part[2]]))
            % [128, 256, 1024, NODESIZE][usize::from(part[0] >> 6)],
        value: part[3],
    })
}

fn summary(report: &Report) -> impl PartialEq + std::fmt::Debug + '_ {
    (&report.trees, &report.bad, report.distinct, &report.stopped)
}
