//! Memory for folios that holds no zeros by itself, and may be refused.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use extentwise_engine::{Memory, NoMemory};

/// What fresh memory holds; nobody writes this byte.
const POISON: u8 = 0xfd;

/// Which requests are refused.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    /// Requests until the next refusal; 0: none comes.
    left: Rc<Cell<u64>>,
}

impl Refusals {
    /// The `nth` request from now on is refused; 0: none.
    pub(super) fn refuse_nth(&self, nth: u64) {
        self.left.set(nth);
    }
}

/// Memory that is used again, and poisoned before.
#[derive(Debug, Default)]
pub(super) struct Poisoned {
    refusals: Refusals,
    free: Vec<Vec<u8>>,
}

impl Poisoned {
    pub(super) fn new(refusals: Refusals) -> Self {
        Self {
            refusals,
            free: Vec::new(),
        }
    }
}

impl Memory for Poisoned {
    type Bytes = Vec<u8>;

    fn allocate(&mut self, len: usize) -> Result<Vec<u8>, NoMemory> {
        let left = self.refusals.left.get();
        self.refusals.left.set(left.saturating_sub(1));
        if left == 1 {
            return Err(NoMemory);
        }
        let mut bytes = self.free.pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(len, POISON);
        Ok(bytes)
    }

    fn zero(&mut self, bytes: &mut Vec<u8>, range: Range<usize>) {
        bytes[range].fill(0);
    }

    fn release(&mut self, bytes: Vec<u8>) {
        self.free.push(bytes);
    }
}
