//! See `extentwise_testkit::property::writeback_invariants`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::writeback_invariants(data));
