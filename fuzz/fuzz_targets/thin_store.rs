//! See `extentwise_testkit::property::thin_store`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::thin_store(data));
