//! The smallest shape is searched to its end, and mistakes are found in some.

use extentwise_testkit::search::{Mistake, SHAPES, search};

#[test]
fn no_state_of_a_small_file_loses_data_or_waits_for_ever() {
    let smallest = SHAPES.iter().find(|shape| shape.name == "three folios");
    let found = search(smallest.unwrap(), Mistake::No, u64::MAX);
    assert_eq!(found.fault, None);
    assert!(found.closed && found.states > 100_000, "{found:?}");
}

#[test]
fn a_search_that_is_cut_short_says_so() {
    let found = search(&SHAPES[0], Mistake::No, 100);
    assert!(!found.closed && found.fault.is_none());
}

#[test]
fn mistakes_are_found_with_the_steps_that_lead_there() {
    // The last takes tens of thousands of states; `cargo xtask search` finds it.
    let slow = Mistake::TruncatedIsRecorded;
    for mistake in Mistake::ALL.into_iter().filter(|mistake| *mistake != slow) {
        let mut found = SHAPES.iter().map(|shape| search(shape, mistake, 5000));
        let fault = found.find_map(|found| found.fault);
        assert!(
            fault.is_some_and(|fault| fault.contains("Write(")),
            "{mistake:?}"
        );
    }
}
