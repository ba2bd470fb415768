//! Images made by `mkfs.btrfs`, and what `btrfs` itself says of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use extentwise_btrfs::{Backing, Image, ImageFile, NodeBlocks, Report};
use tempfile::TempDir;

/// A program that may lie where only the super user looks.
pub(crate) fn program(name: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.env("PATH", path + ":/usr/sbin:/sbin");
    command
}

/// Whether the programs are there. Where they are not, a build server fails and
/// a user is told what was not tested.
pub(crate) fn available() -> bool {
    let found = ["mkfs.btrfs", "btrfs"].into_iter().all(|name| {
        let version = program(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    });
    if !found {
        assert!(!on_build_server(), "btrfs-progs is missing, and CI is set");
        skipped("mkfs.btrfs and btrfs (Debian: btrfs-progs) are missing");
    }
    found
}

pub(crate) fn on_build_server() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

pub(crate) fn skipped(why: &str) {
    eprintln!("\n*** SKIPPED: {why} ***\n");
}

/// A folder with an image in it, and with the files that go into the image.
pub(crate) struct Workshop {
    folder: TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        Self { folder }
    }

    /// The folder whose content an image gets.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        let path = self.folder.path().join("mount");
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Small files, each small enough to lie in the tree.
    pub(crate) fn with_files(self, count: usize) -> Self {
        for index in 0..count {
            let folder = self.root().join(format!("folder {}", index / 500));
            std::fs::create_dir_all(&folder).unwrap();
            let path = folder.join(format!("file {index}"));
            std::fs::write(path, format!("content of {index}").repeat(index % 9)).unwrap();
        }
        self
    }

    /// Makes the image from the folder.
    pub(crate) fn mkfs(&self, options: &[&str]) {
        let image = std::fs::File::create(self.image()).unwrap();
        image.set_len(256 << 20).unwrap();
        let mut command = program("mkfs.btrfs");
        command.arg("--quiet").args(options);
        run(command.arg("--rootdir").arg(self.root()).arg(self.image()));
    }
}

/// Runs a program that must succeed.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {told}");
    output
}

/// Checks an image.
pub(crate) fn check(image: &Path) -> Report {
    check_in(image, Backing::Contiguous)
}

/// Checks an image through blocks of one backing.
pub(crate) fn check_in(image: &Path, backing: Backing) -> Report {
    let mut pool = NodeBlocks::new(backing);
    let image = Image::open(ImageFile::open(image).unwrap(), &mut pool).unwrap();
    image.check(&mut pool, &mut |_| {})
}

/// Nodes and leaves of each tree, in the order in which `btrfs inspect-internal
/// dump-tree` shows them.
pub(crate) fn dumped(image: &Path) -> Vec<(u64, u64)> {
    let mut command = program("btrfs");
    let output = run(command.args(["inspect-internal", "dump-tree"]).arg(image));
    let mut trees: Vec<(u64, u64)> = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        // Names of files stand behind blanks; what begins a line is dump-tree's.
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["node", _, "level", ..] => trees.last_mut().unwrap().0 += 1,
            ["leaf", _, "items", ..] => trees.last_mut().unwrap().1 += 1,
            ["root" | "chunk", "tree"] | ["log", "root", "tree"] => trees.push((0, 0)),
            [_, "tree", "key", ..] | [_, _, "tree", "key", ..] | [_, _, _, "tree", "key", ..]
                if !line.starts_with(char::is_whitespace) =>
            {
                trees.push((0, 0));
            }
            _ => {}
        }
    }
    trees
}

/// What a report counts, to compare with [`dumped`].
pub(crate) fn counted(report: &Report) -> Vec<(u64, u64)> {
    let trees = report.trees.iter();
    trees.map(|tree| (tree.nodes, tree.leaves)).collect()
}
