//! See `extentwise_testkit::property::bitmap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::bitmap(data));
