//! What every byte of a file must be after the actions so far.

use std::collections::BTreeMap;
use std::ops::Range;

use extentwise_files::pattern;

/// The content of one file, told as "which write was here last".
///
/// **Invariant**: `written` holds disjoint, non-empty ranges below `len`, keyed
/// by their start; a byte in none of them is zero. Its memory is that of the
/// ranges, at most two for each action, whatever the file's size.
#[derive(Debug, Default)]
pub(crate) struct Model {
    written: BTreeMap<u64, Written>,
    len: u64,
}

/// The rest of a range of [`Model::written`], behind its start.
#[derive(Clone, Copy, Debug)]
struct Written {
    end: u64,
    /// The number of the write, from 1.
    write: u64,
}

/// A byte that is not what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// Where in the file.
    pub(crate) offset: u64,
    /// What was found.
    pub(crate) found: u8,
    /// What the trace put there.
    pub(crate) expected: u8,
    /// The write that put it there; `None` for a byte that no write reached,
    /// or that was trimmed.
    pub(crate) write: Option<u64>,
}

impl Model {
    /// The file's size in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Write number `write` covers `range`.
    pub(crate) fn write(&mut self, range: Range<u64>, write: u64) {
        if range.is_empty() {
            return;
        }
        self.clear(range.clone());
        self.len = self.len.max(range.end);
        let end = range.end;
        self.written.insert(range.start, Written { end, write });
    }

    /// `range` reads as zero; the size stays.
    pub(crate) fn trim(&mut self, range: Range<u64>) {
        self.clear(range);
    }

    /// The part of `range` that the file has.
    pub(crate) fn clip(&self, range: Range<u64>) -> Range<u64> {
        range.start.min(self.len)..range.end.min(self.len)
    }

    /// The first byte of `bytes`, which lie at `offset`, that is wrong. Bytes
    /// past the end of the file must be zero.
    pub(crate) fn mismatch(&self, bytes: &[u8], offset: u64) -> Option<Mismatch> {
        let end = offset.saturating_add(bytes.len() as u64);
        let slice = |range: Range<u64>| {
            &bytes[(range.start - offset) as usize..(range.end - offset) as usize]
        };
        let mut cursor = offset;
        for (range, write) in self.written_within(offset..end) {
            if let Some(wrong) = not_zero(slice(cursor..range.start), cursor) {
                return Some(wrong);
            }
            let found = slice(range.clone());
            if let Some((at, expected)) = pattern::mismatch(found, range.start, write) {
                return Some(Mismatch {
                    offset: range.start + at as u64,
                    found: found[at],
                    expected,
                    write: Some(write),
                });
            }
            cursor = range.end;
        }
        not_zero(slice(cursor..end), cursor)
    }

    /// The first byte of `range` that is wrong if all of it reads as zero. Costs
    /// what was written there, not the length of the range.
    pub(crate) fn mismatch_of_hole(&self, range: Range<u64>) -> Option<Mismatch> {
        const ZEROS: [u8; 4096] = [0; 4096];
        for (written, _) in self.written_within(range) {
            let mut cursor = written.start;
            while cursor < written.end {
                let len = (written.end - cursor).min(ZEROS.len() as u64);
                if let Some(wrong) = self.mismatch(&ZEROS[..len as usize], cursor) {
                    return Some(wrong);
                }
                cursor += len;
            }
        }
        None
    }

    /// The written ranges that meet `range`, cut to it, in order, with the
    /// number of their write.
    fn written_within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> {
        let before = self.written.range(..range.start).next_back();
        let from = match before {
            Some((&start, written)) if written.end > range.start => start,
            _ => range.start,
        };
        let to = range.end.max(from);
        self.written.range(from..to).map(move |(&start, written)| {
            let cut = start.max(range.start)..written.end.min(range.end);
            (cut, written.write)
        })
    }

    /// Forgets who wrote `range`; ranges that reach out of it keep their rest.
    fn clear(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let reaching_in = self.written.range(..range.start).next_back();
        if let Some((&start, &written)) = reaching_in
            && written.end > range.start
        {
            self.put(start..range.start, written.write);
            self.put(range.start..written.end, written.write);
        }
        while let Some((&start, &written)) = self.written.range(range.clone()).next() {
            self.written.remove(&start);
            self.put(range.end.max(start)..written.end, written.write);
        }
    }

    fn put(&mut self, range: Range<u64>, write: u64) {
        if !range.is_empty() {
            let end = range.end;
            self.written.insert(range.start, Written { end, write });
        }
    }
}

fn not_zero(bytes: &[u8], offset: u64) -> Option<Mismatch> {
    let at = bytes.iter().position(|&byte| byte != 0)?;
    Some(Mismatch {
        offset: offset + at as u64,
        found: bytes[at],
        expected: 0,
        write: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same, a byte at a time.
    #[derive(Default)]
    struct Naive {
        bytes: Vec<u8>,
    }

    impl Naive {
        fn write(&mut self, range: Range<u64>, write: u64) {
            for at in range {
                let at = at as usize;
                self.bytes.resize(self.bytes.len().max(at + 1), 0);
                pattern::fill(&mut self.bytes[at..=at], at as u64, write);
            }
        }

        fn trim(&mut self, range: Range<u64>) {
            for byte in self
                .bytes
                .iter_mut()
                .take(range.end as usize)
                .skip(range.start as usize)
            {
                *byte = 0;
            }
        }
    }

    /// Numbers from a fixed seed, below `limit`.
    fn numbers(mut seed: u64, limit: u64) -> impl FnMut() -> u64 {
        move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % limit
        }
    }

    #[test]
    fn any_mix_of_writes_and_trims_is_what_a_byte_array_holds() {
        for seed in 1..200 {
            let mut number = numbers(seed, 60);
            let mut model = Model::default();
            let mut naive = Naive::default();
            for write in 1..40 {
                let start = number();
                let range = start..start + number() % 20;
                if number().is_multiple_of(4) {
                    model.trim(range.clone());
                    naive.trim(range);
                } else {
                    model.write(range.clone(), write);
                    naive.write(range, write);
                }
                assert_eq!(model.len(), naive.bytes.len() as u64);
                assert_eq!(model.mismatch(&naive.bytes, 0), None, "seed {seed}");
                for start in 0..naive.bytes.len() {
                    assert_eq!(model.mismatch(&naive.bytes[start..], start as u64), None);
                }
            }
            let starts = model.written.iter();
            let ends = starts.clone().map(|(_, written)| written.end);
            assert!(
                ends.zip(starts.skip(1))
                    .all(|(end, (&start, _))| end <= start)
            );
            for at in 0..naive.bytes.len() {
                let mut wrong = naive.bytes.clone();
                wrong[at] ^= 1;
                let found = model.mismatch(&wrong, 0).expect("a byte is wrong");
                assert_eq!((found.offset, found.expected), (at as u64, naive.bytes[at]));
            }
        }
    }

    #[test]
    fn a_trim_in_the_middle_leaves_both_ends() {
        let mut model = Model::default();
        model.write(0..100, 1);
        model.trim(40..60);
        let ranges: Vec<_> = model.written_within(0..100).collect();
        assert_eq!(ranges, [(0..40, 1), (60..100, 1)]);
        assert_eq!(model.len(), 100);
    }

    #[test]
    fn a_trim_past_the_end_changes_no_size_and_an_empty_write_neither() {
        let mut model = Model::default();
        model.write(0..10, 1);
        model.trim(5..u64::MAX);
        model.write(50..50, 2);
        assert_eq!(model.len(), 10);
        assert_eq!(model.clip(3..50), 3..10);
        assert_eq!(model.clip(30..50), 10..10);
    }

    #[test]
    fn a_hole_where_bytes_were_written_is_wrong_and_terabytes_cost_nothing() {
        let mut model = Model::default();
        model.write(1 << 60..(1 << 60) + 10_000, 7);
        assert_eq!(model.mismatch_of_hole(0..1 << 60), None);
        let wrong = model
            .mismatch_of_hole(0..u64::MAX)
            .expect("data is missing");
        assert_eq!((wrong.offset, wrong.write), (1 << 60, Some(7)));
        model.trim(0..1 << 61);
        assert_eq!(model.mismatch_of_hole(0..u64::MAX), None);
    }
}
