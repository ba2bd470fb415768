//! The embedder's example does what it says.

#[path = "../examples/small_store.rs"]
mod small_store;

#[test]
fn the_small_store_reads_what_it_synced_after_it_is_opened_again() {
    small_store::main().unwrap();
}
