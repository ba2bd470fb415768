//! Must crash: see `extentwise_testkit::property::canary`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::canary(data));
