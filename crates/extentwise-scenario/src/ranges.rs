//! Range lists: half-open, ascending, disjoint; `[start, end]` pairs in JSON.

use std::ops::Range;

use serde::ser::{SerializeSeq, Serializer};

use crate::Invalid;
use crate::fields::At;

/// Joins neighbours where one ends at the start of the next. Lists that break
/// the rules of range lists keep breaking them.
pub(crate) fn merge_touching(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end == range.start && !last.is_empty() && !range.is_empty() => {
                last.end = range.end;
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Refuses empty ranges, and ranges that are not ascending and disjoint.
pub(crate) fn check_list(ranges: &[Range<u64>], at: &At<'_>) -> Result<(), Invalid> {
    let mut before: Option<&Range<u64>> = None;
    for range in ranges {
        if range.start >= range.end {
            return Err(at.refuse(format!(
                "{} is empty or runs backwards; start < end is required",
                show(range)
            )));
        }
        if let Some(before) = before
            && range.start < before.end
        {
            return Err(at.refuse(format!(
                "{} after {}; ranges are ascending and disjoint",
                show(range),
                show(before)
            )));
        }
        before = Some(range);
    }
    Ok(())
}

/// Refuses ranges that are not whole blocks or not inside `outer`.
pub(crate) fn check_blocks(
    list: &[Range<u64>],
    block_size: u64,
    outer: &Range<u64>,
    outer_name: &str,
    at: &At<'_>,
) -> Result<(), Invalid> {
    for range in list {
        check_one(range, block_size, outer, outer_name, at)?;
    }
    Ok(())
}

/// The same for a single range.
pub(crate) fn check_one(
    range: &Range<u64>,
    block_size: u64,
    outer: &Range<u64>,
    outer_name: &str,
    at: &At<'_>,
) -> Result<(), Invalid> {
    if !range.start.is_multiple_of(block_size) || !range.end.is_multiple_of(block_size) {
        return Err(at.refuse(format!(
            "range {} is not a multiple of the block size {block_size}",
            show(range)
        )));
    }
    if range.start < outer.start || range.end > outer.end {
        return Err(at.refuse(format!(
            "range {} is not inside the {outer_name} {}",
            show(range),
            show(outer)
        )));
    }
    Ok(())
}

/// The first part of `inner` that `outer` does not cover; both are range lists.
pub(crate) fn first_uncovered(inner: &[Range<u64>], outer: &[Range<u64>]) -> Option<Range<u64>> {
    let mut outer = outer.iter().peekable();
    for range in inner {
        let mut covered = range.start;
        while covered < range.end {
            while outer.next_if(|cover| cover.end <= covered).is_some() {}
            match outer.peek() {
                Some(cover) if cover.start <= covered => covered = cover.end,
                Some(cover) => return Some(covered..range.end.min(cover.start)),
                None => return Some(covered..range.end),
            }
        }
    }
    None
}

/// Refuses a value that stands twice; the order is free.
pub(crate) fn check_no_duplicates(list: &[u64], at: &At<'_>) -> Result<(), Invalid> {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(at.refuse(format!("{} stands twice", pair[0]))),
        None => Ok(()),
    }
}

pub(crate) fn show(range: &Range<u64>) -> String {
    format!("[{}, {}]", range.start, range.end)
}

pub(crate) fn pair(range: &Range<u64>) -> [u64; 2] {
    [range.start, range.end]
}

pub(crate) fn serialize_list<S: Serializer>(
    list: &[Range<u64>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut pairs = serializer.serialize_seq(Some(list.len()))?;
    for range in list {
        pairs.serialize_element(&pair(range))?;
    }
    pairs.end()
}

#[cfg(test)]
// A list of one range is meant as such here.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_merge_and_others_do_not() {
        assert_eq!(merge_touching(vec![0..4, 4..8, 9..12]), [0..8, 9..12]);
    }

    #[test]
    fn the_first_uncovered_part_is_found() {
        assert_eq!(first_uncovered(&[0..4, 8..12], &[0..6, 6..12]), None);
        assert_eq!(first_uncovered(&[0..4, 8..12], &[0..9]), Some(9..12));
        assert_eq!(first_uncovered(&[2..4], &[0..1, 3..9]), Some(2..3));
        assert_eq!(first_uncovered(&[2..4], &[]), Some(2..4));
    }
}
