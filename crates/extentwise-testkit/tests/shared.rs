//! A folio behind its lock answers as the one inside does.

use extentwise_core::folio::{FolioState, InWriteback, SharedFolio, WritebackEnd};
use extentwise_core::geometry::{
    BlockIndex, BlockRange, BlockSize, FileOffset, FolioGeometry, LenBytes,
};

#[test]
fn w11_a_shared_folio_ends_its_writeback_once_and_behind_the_pass() {
    let geometry = FolioGeometry::new(FileOffset::ZERO, LenBytes::new(4096), BlockSize::MIN);
    let geometry = geometry.unwrap();
    let folio = SharedFolio::new(FolioState::<[u64; 3]>::empty(geometry).unwrap());
    let run = BlockRange::new(BlockIndex::new(2), BlockIndex::new(4)).unwrap();
    folio.mark_dirty(run);
    folio.tag_for_sync();
    assert!(folio.with(|folio| folio.is_tagged_for_sync()));
    folio.begin_pass();
    folio.clear_dirty(run);
    folio.start_writeback(run);
    let busy = folio.invalidate(geometry.range());
    assert_eq!(busy, Err(InWriteback(run)), "C12");
    assert_eq!(folio.end_writeback(run), WritebackEnd::NotNow);
    assert_eq!(folio.end_pass(), WritebackEnd::Ended);
    assert_eq!(folio.end_pass(), WritebackEnd::NotNow);
    assert_eq!(folio.invalidate(geometry.range()), Ok(geometry.all()));
    let state = folio.into_inner();
    assert!(!state.is_dirty() && !state.is_in_writeback());
    assert!(!state.is_tagged_for_sync(), "W12");
}
