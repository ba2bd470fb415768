//! Replays the committed corpora, so that what a fuzzer once reached is reached
//! by every `cargo test`.

use std::fs;
use std::path::{Path, PathBuf};

use extentwise_testkit::property::{TARGETS, Target, target};

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Says which file fails, if one does.
struct File<'p>(&'p Path);

impl Drop for File<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let name = self.0.display();
            eprintln!("{name} fails; its case: cargo xtask fuzz repro {name}");
        }
    }
}

fn files(target: &Target) -> Vec<PathBuf> {
    let folder = fuzz_folder().join("corpus").join(target.name);
    let entries = fs::read_dir(&folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

fn replay(name: &str) {
    let Some(target) = target(name) else {
        panic!("no property is called {name}");
    };
    for path in files(target) {
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let _named = File(&path);
        (target.run)(&bytes);
    }
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        #[test]
        fn every_property_is_replayed_and_has_a_fuzz_target() {
            let replayed = [$(stringify!($name)),*];
            for target in TARGETS {
                assert!(replayed.contains(&target.name), "{} is not replayed", target.name);
                let file = fuzz_folder().join(format!("fuzz_targets/{}.rs", target.name));
                assert!(file.is_file(), "{} is missing", file.display());
            }
            assert_eq!(replayed.len(), TARGETS.len());
        }
    };
}

replays! {
    writeback writeback_invariants ordered_table write_begin bitmap errseq extent_buffer scenario_json iolog
    btrfs_image thin_store engine_ops
}
