//! The little that is asked of a linked program: the section names and sizes of a 64-bit
//! little-endian ELF file.

/// The name and size in bytes of every section, or what is wrong with the file.
pub(crate) fn sections(file: &[u8]) -> Result<Vec<(String, u64)>, &'static str> {
    const CLASS_64_LITTLE_ENDIAN: [u8; 6] = *b"\x7fELF\x02\x01";
    if !file.starts_with(&CLASS_64_LITTLE_ENDIAN) {
        return Err("not a 64-bit little-endian ELF file");
    }
    let headers = number(file, 0x28, 8).ok_or("no section headers")?;
    let entry = number(file, 0x3a, 2).ok_or("no section headers")?;
    let count = number(file, 0x3c, 2).ok_or("no section headers")?;
    let names = number(file, 0x3e, 2).ok_or("no section names")?;

    let field = |index: u64, offset: u64, width: u64| {
        let header = headers.checked_add(index.checked_mul(entry)?)?;
        number(file, header.checked_add(offset)?, width)
    };
    let names = field(names, 0x18, 8).ok_or("no section names")?;
    (0..count)
        .map(|index| {
            let name = names.checked_add(field(index, 0, 4)?)?;
            let name = file.get(usize::try_from(name).ok()?..)?;
            let name = name.split(|&byte| byte == 0).next()?;
            let size = field(index, 0x20, 8)?;
            Some((String::from_utf8_lossy(name).into_owned(), size))
        })
        .collect::<Option<_>>()
        .ok_or("a section header points outside of the file")
}

/// The little-endian number of `width` ≤ 8 bytes at `offset`.
fn number(file: &[u8], offset: u64, width: u64) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    let end = usize::try_from(offset.checked_add(width)?).ok()?;
    let bytes = file.get(start..end)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sections_of_this_very_test_are_read() {
        let path = std::env::current_exe().expect("a test knows its own path");
        let file = std::fs::read(path).expect("a test can read itself");
        let sections = sections(&file).expect("a test is a sound ELF file");
        let text = sections.iter().find(|(name, _)| name == ".text");
        assert!(text.is_some_and(|(_, size)| *size > 0));
    }

    #[test]
    fn a_cut_or_hostile_file_is_refused() {
        assert!(sections(b"").is_err());
        assert!(sections(b"MZ").is_err());
        let mut file = b"\x7fELF\x02\x01".to_vec();
        assert!(sections(&file).is_err());
        file.resize(64, 0xff);
        assert!(sections(&file).is_err());
    }
}
