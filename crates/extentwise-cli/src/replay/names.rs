//! Which file of the target folder stands for which name of a trace.
//!
//! A trace names files by paths of the machine it was recorded on. Only the
//! base name is kept, so nothing leaves the folder; where two base names
//! collide, the later file gets a suffix.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use anyhow::{Result, bail};

use crate::iolog::{AddedFile, shown};

/// The longest name that Linux file systems take, in bytes.
const NAME_LEN_MAX: usize = 255;

/// The file name in the folder for each of `files`, in their order.
///
/// The first file of a base name gets it as it is. The others get the lowest
/// suffix (`.1`, `.2`, ...) that makes a name nobody has.
pub(crate) fn assign(files: &[AddedFile]) -> Result<Vec<OsString>> {
    let bases: Vec<&[u8]> = files.iter().map(base_name).collect::<Result<_>>()?;
    let mut taken: HashSet<Vec<u8>> = bases.iter().map(|base| base.to_vec()).collect();
    // How many files of a base name there were, and the suffixes they tried.
    let mut suffixes: HashMap<&[u8], u64> = HashMap::new();
    let mut names = Vec::with_capacity(files.len());
    for (file, base) in files.iter().zip(bases) {
        let suffix = suffixes.entry(base).or_insert(0);
        let mut name = base.to_vec();
        if *suffix > 0 {
            name = suffixed(base, suffix);
            while taken.contains(&name) {
                name = suffixed(base, suffix);
            }
        } else {
            *suffix = 1;
        }
        if name.len() > NAME_LEN_MAX {
            bail!(
                "line {}: file name `{}`: must have at most {NAME_LEN_MAX} bytes",
                file.line,
                shown(&name)
            );
        }
        taken.insert(name.clone());
        names.push(OsString::from_vec(name));
    }
    Ok(names)
}

/// `base` with the suffix, which is used up.
fn suffixed(base: &[u8], suffix: &mut u64) -> Vec<u8> {
    let name = [base, format!(".{suffix}").as_bytes()].concat();
    *suffix += 1;
    name
}

fn base_name(file: &AddedFile) -> Result<&[u8]> {
    let base = file.name.rsplit(|&byte| byte == b'/').next();
    let rule = match base.unwrap_or_default() {
        b"" => "must not end in a slash",
        b"." | b".." => "must name a file, not a folder",
        base if base.contains(&0) => "must hold no NUL byte",
        base => return Ok(base),
    };
    bail!("line {}: file `{}`: {rule}", file.line, shown(&file.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(names: &[&[u8]]) -> Vec<AddedFile> {
        let numbered = names.iter().zip(2..);
        let file = |(&name, line): (&&[u8], u64)| AddedFile {
            name: name.into(),
            line,
        };
        numbered.map(file).collect()
    }

    fn assigned(names: &[&[u8]]) -> Vec<OsString> {
        assign(&added(names)).expect("the names are sound")
    }

    #[test]
    fn the_base_name_is_kept_and_nothing_leaves_the_folder() {
        let names = assigned(&[b"/etc/passwd", b"../../up", b"a/../b", b"plain", b"..a"]);
        assert_eq!(names, ["passwd", "up", "b", "plain", "..a"]);
    }

    #[test]
    fn colliding_names_get_a_suffix_nobody_else_has() {
        let names = assigned(&[b"a/data", b"b/data", b"c/data.1", b"d/data", b"e/data.1"]);
        assert_eq!(names, ["data", "data.2", "data.1", "data.3", "data.1.1"]);
        assert_eq!(assigned(&[b"x/f", b"y/f"]), ["f", "f.1"]);
    }

    #[test]
    fn a_name_that_is_no_file_name_is_refused_with_its_line() {
        let long = [b'n'; 256];
        let table: [(&[u8], &str); 7] = [
            (b"dir/", "line 3: file `dir/`: must not end in a slash"),
            (b"/", "line 3: file `/`: must not end in a slash"),
            (b".", "line 3: file `.`: must name a file, not a folder"),
            (b"..", "line 3: file `..`: must name a file, not a folder"),
            (
                b"a/..",
                "line 3: file `a/..`: must name a file, not a folder",
            ),
            (b"a\0b", "line 3: file `a\\x00b`: must hold no NUL byte"),
            (&long, "line 3: file name `nnnn"),
        ];
        for (name, expected) in table {
            let error = assign(&added(&[b"fine", name])).expect_err("refused");
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_suffix_counts_for_the_length_of_a_name() {
        let (left, right) = (
            [b"a/", &[b'n'; 255][..]].concat(),
            [b"b/", &[b'n'; 255][..]].concat(),
        );
        let error = assign(&added(&[&left, &right])).expect_err("257 bytes");
        assert!(
            error.to_string().ends_with("must have at most 255 bytes"),
            "{error}"
        );
    }
}
