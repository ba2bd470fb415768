//! See `extentwise_testkit::property::iolog`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::iolog(data));
