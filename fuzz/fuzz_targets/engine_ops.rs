//! See `extentwise_testkit::property::engine_ops`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::engine_ops(data));
