//! Failures on demand, for tests of what is built on this.

use crate::{Step, Steps};

/// Steps that fail as told; the others succeed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// So many allocations of whole blocks fail, from now on.
    pub contiguous: u32,
    /// So many mappings fail, from now on.
    pub maps: u32,
    /// Getting the page of this index fails, every time.
    pub page_at: Option<usize>,
    /// Pages that were allowed.
    pub pages_got: usize,
    /// Mappings that were tried.
    pub maps_tried: usize,
}

impl Steps for Faults {
    fn allows(&mut self, step: Step) -> bool {
        let counter = match step {
            Step::Contiguous => &mut self.contiguous,
            Step::Map => {
                self.maps_tried += 1;
                &mut self.maps
            }
            Step::Page(index) => {
                let allowed = self.page_at != Some(index);
                self.pages_got += usize::from(allowed);
                return allowed;
            }
        };
        match counter.checked_sub(1) {
            Some(left) => {
                *counter = left;
                false
            }
            None => true,
        }
    }
}
