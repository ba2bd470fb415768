//! See `extentwise_testkit::property::scenario_json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::scenario_json(data));
