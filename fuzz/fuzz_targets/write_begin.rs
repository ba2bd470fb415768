//! See `extentwise_testkit::property::write_begin`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::write_begin(data));
