//! An image: opened, walked, looked into.

use extentwise_core::extent_buffer::ExtentBuffer;
use zerocopy::FromBytes;

use crate::chunk::{ChunkFault, ChunkMap, Copy};
use crate::disk::{Key, LEVEL_MAX, RawRoot, kind, objectid};
use crate::fault::{Bad, Error, Field, Reason, Rule};
use crate::memory::BlockPool;
use crate::read_at::ReadAt;
use crate::report::{Report, Stopped, Tree};
use crate::superblock::{Root, Superblock};
use crate::verify::{self, Expected};
use crate::view::BlockView;
use crate::walk::{Dropped, Limits, Pass, Picked, Progress, Walk, fill};

/// A btrfs image whose superblock and chunks are known.
///
/// **Invariant**: the image is only ever read.
#[derive(Debug)]
pub struct Image<R> {
    reader: R,
    superblock: Superblock,
    chunks: ChunkMap,
    /// The walk after the chunk tree, which every check goes on from.
    progress: Progress,
    chunk_tree: Result<Tree, Stopped>,
}

impl<R: ReadAt> Image<R> {
    /// Opens an image: reads its superblock, the chunks in it and the chunk
    /// tree. Bad blocks in the chunk tree are no error here but part of the
    /// report of a check.
    pub fn open<P: BlockPool>(reader: R, pool: &mut P) -> Result<Self, Error> {
        Self::open_with(reader, pool, None)
    }

    /// Opens an image whose walks keep other limits than those for its length.
    pub fn open_limited<P: BlockPool>(
        reader: R,
        pool: &mut P,
        limits: Limits,
    ) -> Result<Self, Error> {
        Self::open_with(reader, pool, Some(limits))
    }

    fn open_with<P: BlockPool>(
        reader: R,
        pool: &mut P,
        limits: Option<Limits>,
    ) -> Result<Self, Error> {
        let (superblock, bad) = Superblock::read(&reader)?;
        let limits = limits.unwrap_or(Limits::for_image(reader.len_bytes(), superblock.nodesize));
        let mut chunks = ChunkMap::of_system(&superblock)?;
        let mut pass = Pass {
            wanted: Some(kind::CHUNK_ITEM),
            ..Pass::default()
        };
        let image = (&reader, &superblock, &chunks);
        let mut watch = |_| {};
        let mut walk = Walk::new(image, pool, Progress::new(limits, bad), &mut watch);
        let root = superblock.chunk_root;
        let mut chunk_tree = walk_tree(&mut walk, objectid::CHUNK_TREE, 0, root, &mut pass);
        let mut progress = walk.progress;
        for item in pass.items {
            let field = match chunks.insert(item.key, &item.data) {
                Ok(()) => continue,
                Err(ChunkFault::Unsupported(what)) => return Err(what.into()),
                Err(ChunkFault::Field(field)) => field,
            };
            if let Err(stopped) = progress.bad(item.bad(field)) {
                chunk_tree = chunk_tree.and(Err(stopped));
                break;
            }
        }
        Ok(Self {
            reader,
            superblock,
            chunks,
            progress,
            chunk_tree,
        })
    }

    /// The superblock that is used.
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Walks every tree and verifies every block. `watch` is told how many
    /// blocks were found sound so far.
    pub fn check<P: BlockPool>(&self, pool: &mut P, watch: &mut dyn FnMut(u64)) -> Report {
        let image = (&self.reader, &self.superblock, &self.chunks);
        let mut walk = Walk::new(image, pool, self.progress.clone(), watch);
        let mut trees = Vec::new();
        let stopped = self.all_trees(&mut walk, &mut trees).err();
        Report {
            trees,
            bad: walk.progress.bad,
            distinct: walk.progress.distinct,
            stopped,
        }
    }

    /// Looks into the block at a logical address, whatever is wrong with it.
    /// The first copy that is sound is shown, or else the first one.
    pub fn block<P: BlockPool>(&self, bytenr: u64, pool: &mut P) -> Result<BlockView, Error> {
        let nodesize = self.superblock.nodesize;
        let no_memory = |error: P::Error| Error::Memory(error.to_string());
        let Some(copies) = self.chunks.copies(bytenr, nodesize) else {
            return Err(Error::Unmapped(bytenr));
        };
        let copies: Vec<Copy> = copies.collect();
        let memory = pool.take(nodesize as usize).map_err(no_memory)?;
        let mut buffer = ExtentBuffer::unread(bytenr, memory);
        let mut read = |copy: &Copy| {
            fill(&self.reader, &mut buffer, copy.physical)?;
            let verdict = verify::block(&self.superblock, &buffer, &mut Vec::new());
            let view = BlockView::of(&buffer)?;
            Ok::<_, Reason>((view, verdict.err()))
        };
        let mut shown: Option<(BlockView, Option<Reason>)> = None;
        let mut verdicts = Vec::new();
        for copy in copies {
            let verdict = match read(&copy) {
                Err(reason) => Some(reason),
                Ok((view, verdict)) => {
                    let better = match &shown {
                        None => true,
                        Some((_, shown)) => shown.is_some() && verdict.is_none(),
                    };
                    if better {
                        let mirror = copy.mirror;
                        shown = Some((BlockView { mirror, ..view }, verdict.clone()));
                    }
                    verdict
                }
            };
            verdicts.push((copy, verdict));
        }
        pool.give(buffer.into_memory());
        match shown {
            Some((view, _)) => Ok(BlockView {
                copies: verdicts,
                ..view
            }),
            None => Err(Error::Unreadable(bytenr)),
        }
    }

    fn all_trees<P: BlockPool>(
        &self,
        walk: &mut Walk<'_, R, P>,
        trees: &mut Vec<Tree>,
    ) -> Result<(), Stopped> {
        let mut roots = Pass::of_roots();
        let root = self.superblock.root;
        trees.push(walk_tree(walk, objectid::ROOT_TREE, 0, root, &mut roots)?);
        trees.push(self.chunk_tree.clone()?);
        let mut logs = Pass::of_roots();
        if let Some(root) = self.superblock.log_root {
            trees.push(walk_tree(walk, objectid::TREE_LOG, 0, root, &mut logs)?);
        }
        for item in roots.items.into_iter().chain(logs.items) {
            let (root, dropped) = match self.root_of(&item) {
                Ok(root) => root,
                Err(field) => {
                    walk.progress.bad(item.bad(field))?;
                    continue;
                }
            };
            let mut pass = Pass {
                dropped,
                ..Pass::default()
            };
            let Key {
                objectid, offset, ..
            } = item.key;
            trees.push(walk_tree(walk, objectid, offset, root, &mut pass)?);
        }
        Ok(())
    }

    /// The root that an item names, and how far its tree was deleted.
    fn root_of(&self, item: &Picked) -> Result<(Root, Option<Dropped>), Field> {
        let size = item.data.len() as u64;
        let (raw, _) = RawRoot::read_from_prefix(&item.data).map_err(|_| {
            let least = size_of::<RawRoot>() as u64;
            Field::new("size of the root item", size, Rule::AtLeast(least))
        })?;
        for (name, level) in [("level", raw.level), ("drop_level", raw.drop_level)] {
            if level > LEVEL_MAX {
                let rule = Rule::AtMost(LEVEL_MAX.into());
                return Err(Field::new(name, level.into(), rule));
            }
        }
        let (bytenr, sector) = (raw.bytenr.get(), u64::from(self.superblock.sectorsize));
        if !bytenr.is_multiple_of(sector) {
            return Err(Field::new("bytenr", bytenr, Rule::MultipleOf(sector)));
        }
        let root = Root {
            bytenr,
            level: raw.level,
            generation: raw.generation.get(),
        };
        let dropped = Dropped {
            key: raw.drop_progress.key(),
            level: raw.drop_level,
        };
        Ok((root, (dropped.key != Key::default()).then_some(dropped)))
    }
}

impl Pass {
    fn of_roots() -> Self {
        Self {
            wanted: Some(kind::ROOT_ITEM),
            ..Self::default()
        }
    }
}

impl Picked {
    fn bad(&self, field: Field) -> Bad {
        Bad {
            bytenr: self.bytenr,
            mirror: self.mirror,
            reason: field.in_slot(self.slot).into(),
            used: None,
        }
    }
}

fn walk_tree<R: ReadAt, P: BlockPool>(
    walk: &mut Walk<'_, R, P>,
    objectid: u64,
    offset: u64,
    root: Root,
    pass: &mut Pass,
) -> Result<Tree, Stopped> {
    let expected = Expected {
        bytenr: root.bytenr,
        level: root.level,
        generation: root.generation,
        tree: objectid,
        first_key: None,
    };
    let subtree = walk.subtree(&expected, pass)?;
    Ok(Tree {
        objectid,
        offset,
        nodes: subtree.map_or(0, |subtree| subtree.nodes),
        leaves: subtree.map_or(0, |subtree| subtree.leaves),
        levels: subtree.map_or(0, |subtree| subtree.sound.level + 1),
    })
}
