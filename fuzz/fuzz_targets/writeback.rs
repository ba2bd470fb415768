//! See `extentwise_testkit::property::writeback`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::writeback(data));
