//! See `extentwise_testkit::property::ordered_table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::ordered_table(data));
