//! See `extentwise_testkit::property::extent_buffer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::extent_buffer(data));
