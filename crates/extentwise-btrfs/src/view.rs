//! A look into one block.

use extentwise_core::extent_buffer::{BlockMemory, ExtentBuffer};

use crate::chunk::Copy;
use crate::disk::Key;
use crate::fault::Reason;
use crate::verify::{self, Header};

/// One block, decoded as far as its bytes make sense.
#[derive(Clone, Debug)]
pub struct BlockView {
    /// The copy that is shown.
    pub mirror: u32,
    /// Where all copies lie, and what is wrong with each by itself.
    pub copies: Vec<(Copy, Option<Reason>)>,
    /// The header.
    pub header: Header,
    /// What lies behind the header.
    pub records: Records,
    /// All bytes of the block.
    pub bytes: Vec<u8>,
}

/// What lies behind the header of a block.
#[derive(Clone, Debug)]
pub enum Records {
    /// A leaf's items.
    Items(Vec<ItemView>),
    /// A node's pointers: key, address and generation of each child.
    Pointers(Vec<(Key, u64, u64)>),
}

/// An item of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemView {
    /// Its key.
    pub key: Key,
    /// First byte of its data in the block; not checked.
    pub start: u64,
    /// Bytes of its data; not checked.
    pub size: u32,
}

impl BlockView {
    /// Decodes a block that may be bad: as many records as fit are shown.
    pub(crate) fn of<M: BlockMemory>(buffer: &ExtentBuffer<M>) -> Result<Self, Reason> {
        let header = verify::header(buffer)?;
        let most = verify::records_max(buffer.len(), header.level);
        let count = header.nritems.min(most);
        let records = if header.level == 0 {
            let mut items = Vec::new();
            verify::each_item(buffer, count, |_, item| {
                items.push(ItemView {
                    key: item.key,
                    start: item.start,
                    size: item.size,
                });
                Ok::<_, Reason>(())
            })?;
            Records::Items(items)
        } else {
            let mut pointers = Vec::new();
            verify::each_pointer(buffer, count, |_, pointer| {
                pointers.push((pointer.key, pointer.bytenr, pointer.generation));
                Ok::<_, Reason>(())
            })?;
            Records::Pointers(pointers)
        };
        let mut bytes = vec![0; buffer.len()];
        buffer.read(0, &mut bytes).map_err(|_| Reason::Unmapped)?;
        Ok(Self {
            mirror: 0,
            copies: Vec::new(),
            header,
            records,
            bytes,
        })
    }
}
