//! See `extentwise_testkit::property::btrfs_image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extentwise_testkit::property::btrfs_image(data));
