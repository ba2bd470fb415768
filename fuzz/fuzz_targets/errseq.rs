//! See `extentwise_testkit::property::errseq`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::errseq(data));
