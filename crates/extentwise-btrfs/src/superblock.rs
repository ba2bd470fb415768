//! The superblock: found, verified, and every field of it that is used checked.

use extentwise_checksum::Algorithm;
use zerocopy::{FromZeros, IntoBytes};

use crate::csum::compare_csum;
use crate::disk::{LEVEL_MAX, MAGIC, RawSuperblock, SUPERBLOCK_LEN, SUPERBLOCK_OFFSETS, Uuid};
use crate::fault::{Bad, Error, Field, Reason, Rule, Unsupported};
use crate::read_at::ReadAt;

/// Features that change how tree blocks are found or read in no way that
/// matters here.
const INCOMPAT_SUPPORTED: u64 = 1 << 0 // mixed backref
    | 1 << 1 // default subvolume
    | 1 << 2 // mixed groups
    | 1 << 3 // compress lzo
    | 1 << 4 // compress zstd
    | 1 << 5 // big metadata
    | 1 << 6 // extended iref
    | 1 << 8 // skinny metadata
    | 1 << 9 // no holes
    | METADATA_UUID
    | 1 << 11 // raid1c34
    | 1 << 16; // simple quota
/// Tree blocks carry another UUID than the one the file system is known by.
const METADATA_UUID: u64 = 1 << 10;
/// A metadata dump of the old kind, or a change of UUID or of the metadata's
/// checksum that was not finished: blocks do not agree with the superblock.
const FLAGS_UNSUPPORTED: u64 = 1 << 33 | 1 << 35 | 1 << 36 | 1 << 40;

/// What a superblock says of a tree's root, or a root item does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Logical address of the root block.
    pub bytenr: u64,
    /// Its level.
    pub level: u8,
    /// Its generation.
    pub generation: u64,
}

/// A superblock that was verified.
#[derive(Clone, Debug)]
pub struct Superblock {
    /// Where it lies on the device.
    pub bytenr: u64,
    /// The UUID by which the file system is known.
    pub fsid: Uuid,
    /// The UUID that tree blocks carry.
    pub metadata_uuid: Uuid,
    /// The transaction that wrote it.
    pub generation: u64,
    /// Bytes of a sector: 4 to 64 KiB, a power of two.
    pub sectorsize: u32,
    /// Bytes of a tree block: one sector to 64 KiB, a power of two.
    pub nodesize: u32,
    /// The algorithm of checksums.
    pub csum: Algorithm,
    /// The root tree.
    pub root: Root,
    /// The chunk tree.
    pub chunk_root: Root,
    /// The tree of log trees, if there are any.
    pub log_root: Option<Root>,
    /// The id of the device.
    pub devid: u64,
    pub(crate) system_chunks: Vec<u8>,
}

impl Superblock {
    /// Reads the superblock of an image, and what is wrong with its copies. The
    /// first copy is taken if it is sound, else the newest sound mirror.
    pub(crate) fn read(image: &impl ReadAt) -> Result<(Self, Vec<Bad>), Error> {
        let mut sound = Vec::new();
        let mut bad = Vec::new();
        for (mirror, bytenr) in (1..).zip(SUPERBLOCK_OFFSETS) {
            let end = bytenr.saturating_add(SUPERBLOCK_LEN as u64);
            if mirror > 1 && end > image.len_bytes() {
                break;
            }
            match read_copy(image, bytenr) {
                Ok(raw) => sound.push(raw),
                Err(reason) => bad.push(Bad {
                    bytenr,
                    mirror,
                    reason,
                    used: None,
                }),
            }
        }
        // A sound first copy stands even if a mirror is newer: it is the one
        // that the file system goes by.
        let first = sound
            .iter()
            .find(|raw| raw.bytenr.get() == SUPERBLOCK_OFFSETS[0]);
        let newest = || sound.iter().max_by_key(|raw| raw.generation.get());
        let Some(raw) = first.or_else(newest) else {
            let faults = bad.into_iter().map(|bad| (bad.bytenr, bad.reason));
            return Err(Error::NoSuperblock(faults.collect()));
        };
        // The image may be longer than the device it holds: there is no mirror
        // behind the device's end.
        let device_end = raw.device.total_bytes.get();
        let used = (1..)
            .zip(SUPERBLOCK_OFFSETS)
            .find(|(_, at)| *at == raw.bytenr.get());
        for bad in &mut bad {
            bad.used = used.map(|(mirror, _)| mirror);
        }
        bad.retain(|bad| bad.bytenr.saturating_add(SUPERBLOCK_LEN as u64) <= device_end);
        Ok((Self::supported(raw)?, bad))
    }

    /// What a sound superblock says, if this reader supports it.
    fn supported(raw: &RawSuperblock) -> Result<Self, Unsupported> {
        let incompat = raw.incompat_flags.get();
        if incompat & !INCOMPAT_SUPPORTED != 0 {
            return Err(Unsupported::Incompat(incompat & !INCOMPAT_SUPPORTED));
        }
        if raw.flags.get() & FLAGS_UNSUPPORTED != 0 {
            return Err(Unsupported::Flags(raw.flags.get() & FLAGS_UNSUPPORTED));
        }
        if raw.num_devices.get() != 1 {
            return Err(Unsupported::Devices(raw.num_devices.get()));
        }
        let csum = raw.csum_type.get();
        let csum = Algorithm::from_id(csum).ok_or(Unsupported::Csum(csum))?;
        let generation = raw.generation.get();
        let used = raw.sys_chunk_array_size.get() as usize;
        let system_chunks = raw.sys_chunk_array.get(..used).unwrap_or_default();
        Ok(Self {
            bytenr: raw.bytenr.get(),
            fsid: raw.fsid,
            metadata_uuid: metadata_uuid(raw),
            generation,
            sectorsize: raw.sectorsize.get(),
            nodesize: raw.nodesize.get(),
            csum,
            root: Root {
                bytenr: raw.root.get(),
                level: raw.root_level,
                generation,
            },
            chunk_root: Root {
                bytenr: raw.chunk_root.get(),
                level: raw.chunk_root_level,
                generation: raw.chunk_root_generation.get(),
            },
            // Logs are written in the transaction after the superblock's.
            log_root: (raw.log_root.get() != 0).then(|| Root {
                bytenr: raw.log_root.get(),
                level: raw.log_root_level,
                generation: generation.wrapping_add(1),
            }),
            devid: raw.device.devid.get(),
            system_chunks: system_chunks.to_vec(),
        })
    }
}

/// Reads the copy at `offset`, which must be a superblock with the checksum of
/// its bytes, at its place, with fields that keep their rules.
fn read_copy(image: &impl ReadAt, offset: u64) -> Result<RawSuperblock, Reason> {
    let mut raw = RawSuperblock::new_zeroed();
    image
        .read_exact_at(offset, raw.as_mut_bytes())
        .map_err(|error| Reason::Unreadable(error.kind()))?;
    if raw.magic != MAGIC {
        return Err(Reason::Magic);
    }
    // With an unknown algorithm nothing can be verified, and what is unknown is
    // refused later.
    if let Some(csum) = Algorithm::from_id(raw.csum_type.get()) {
        let behind = raw.as_bytes().get(raw.csum.len()..).unwrap_or_default();
        compare_csum(csum, &raw.csum, &csum.of_bytes(behind))?;
    }
    check_fields(&raw, offset)?;
    let expected = metadata_uuid(&raw);
    if raw.device.fsid != expected {
        return Err(Reason::Uuid {
            field: "dev_item.fsid",
            found: raw.device.fsid,
            expected,
        });
    }
    Ok(raw)
}

fn check_fields(raw: &RawSuperblock, offset: u64) -> Result<(), Field> {
    let check =
        |holds: bool, name, found, rule| holds.then_some(()).ok_or(Field::new(name, found, rule));
    let bytenr = raw.bytenr.get();
    check(bytenr == offset, "bytenr", bytenr, Rule::Is(offset))?;
    let in_bounds =
        |size: u64, least: u64| size.is_power_of_two() && (least..=65536).contains(&size);
    let sector = u64::from(raw.sectorsize.get());
    let rule = Rule::PowerOfTwo(4096, 65536);
    check(in_bounds(sector, 4096), "sectorsize", sector, rule)?;
    let node = u64::from(raw.nodesize.get());
    let rule = Rule::PowerOfTwo(sector, 65536);
    check(in_bounds(node, sector), "nodesize", node, rule)?;
    let array = u64::from(raw.sys_chunk_array_size.get());
    let most = raw.sys_chunk_array.len() as u64;
    let rule = Rule::AtMost(most);
    check(array <= most, "sys_chunk_array_size", array, rule)?;
    for (name, level) in [
        ("root_level", raw.root_level),
        ("chunk_root_level", raw.chunk_root_level),
        ("log_root_level", raw.log_root_level),
    ] {
        let rule = Rule::AtMost(LEVEL_MAX.into());
        check(level <= LEVEL_MAX, name, level.into(), rule)?;
    }
    for (name, bytenr) in [
        ("root", raw.root.get()),
        ("chunk_root", raw.chunk_root.get()),
        ("log_root", raw.log_root.get()),
    ] {
        let rule = Rule::MultipleOf(sector);
        check(bytenr.is_multiple_of(sector), name, bytenr, rule)?;
    }
    let devices = raw.num_devices.get();
    check(devices > 0, "num_devices", devices, Rule::AtLeast(1))
}

/// The UUID of tree blocks.
fn metadata_uuid(raw: &RawSuperblock) -> Uuid {
    if raw.incompat_flags.get() & METADATA_UUID == 0 {
        raw.fsid
    } else {
        raw.metadata_uuid
    }
}
