//! Which bytes of an ordered extent are finished: the memory that makes a
//! double finish visible (O4).

use core::fmt::Debug;

/// A half-open stretch of bytes, relative to the start of an ordered extent.
pub type Span = (u64, u64);

/// Remembers which bytes of one ordered extent were finished.
pub trait FinishedMap: Default + Debug {
    /// Marks `span` finished. Calls `double` with each part of it that was
    /// finished before, and answers how many bytes are new. `bytes_left` is how
    /// many can be new at the most.
    fn mark(&mut self, span: Span, bytes_left: u64, double: &mut dyn FnMut(Span)) -> u64;

    /// Cuts the memory at `at`: bytes behind it move to the map that is
    /// answered, relative to `at`. `None`, and nothing changed, where the map
    /// does not know which bytes are finished; `finished` is their number.
    fn split_off(&mut self, at: u64, finished: u64) -> Option<Self>;

    /// Bytes of `[0, before)` known to be finished.
    fn finished_before(&self, before: u64) -> u64;
}

/// Remembers nothing. A double finish shows only where more bytes are finished
/// than are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoFinishedMap;

impl FinishedMap for NoFinishedMap {
    fn mark(&mut self, span: Span, bytes_left: u64, double: &mut dyn FnMut(Span)) -> u64 {
        let len = span.1.saturating_sub(span.0);
        if len > bytes_left {
            double((span.0.saturating_add(bytes_left), span.1));
        }
        len.min(bytes_left)
    }

    fn split_off(&mut self, _at: u64, finished: u64) -> Option<Self> {
        (finished == 0).then_some(Self)
    }

    fn finished_before(&self, _before: u64) -> u64 {
        0
    }
}

/// Remembers up to `N` separate finished stretches; stretches that touch are
/// one. Bytes finished when all `N` are in use are counted but not remembered:
/// the same bytes finished again would not be seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FixedFinishedMap<const N: usize>(heapless::Vec<Span, N>);

/// Remembers every finished stretch, on the heap; stretches that touch are one.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapFinishedMap(alloc::vec::Vec<Span>);

/// The list operations in which the two remembering maps differ.
trait Spans: Default {
    fn as_slice(&self) -> &[Span];
    fn as_mut_slice(&mut self) -> &mut [Span];
    /// Adds a span at `index`; a full list stays as it is.
    fn insert(&mut self, index: usize, span: Span);
    fn remove(&mut self, index: usize);
    fn pop(&mut self) -> Option<Span>;
}

impl<const N: usize> Spans for heapless::Vec<Span, N> {
    fn as_slice(&self) -> &[Span] {
        self
    }
    fn as_mut_slice(&mut self) -> &mut [Span] {
        self
    }
    fn insert(&mut self, index: usize, span: Span) {
        // Full: counted, not remembered, as the type says.
        let _ = self.insert(index, span);
    }
    fn remove(&mut self, index: usize) {
        self.remove(index);
    }
    fn pop(&mut self) -> Option<Span> {
        self.pop()
    }
}

#[cfg(feature = "alloc")]
impl Spans for alloc::vec::Vec<Span> {
    fn as_slice(&self) -> &[Span] {
        self
    }
    fn as_mut_slice(&mut self) -> &mut [Span] {
        self
    }
    fn insert(&mut self, index: usize, span: Span) {
        self.insert(index, span);
    }
    fn remove(&mut self, index: usize) {
        self.remove(index);
    }
    fn pop(&mut self) -> Option<Span> {
        self.pop()
    }
}

/// Joins `span` to a sorted list of spans that neither overlap nor touch.
fn mark<L: Spans>(list: &mut L, span: Span, bytes_left: u64, double: &mut dyn FnMut(Span)) -> u64 {
    let (start, end) = span;
    if bytes_left == 0 {
        double(span);
        return 0;
    }
    let first = list.as_slice().partition_point(|known| known.1 < start);
    let mut joined = span;
    let mut met = 0;
    let mut known_bytes = 0;
    for known in list.as_slice().iter().skip(first) {
        if known.0 > end {
            break;
        }
        let both = (known.0.max(start), known.1.min(end));
        if both.0 < both.1 {
            known_bytes += both.1 - both.0;
            double(both);
        }
        joined = (joined.0.min(known.0), joined.1.max(known.1));
        met += 1;
    }
    if met == 0 {
        list.insert(first, joined);
    } else {
        if let Some(slot) = list.as_mut_slice().get_mut(first) {
            *slot = joined;
        }
        for _ in 1..met {
            list.remove(first + 1);
        }
    }
    end.saturating_sub(start)
        .saturating_sub(known_bytes)
        .min(bytes_left)
}

fn split_off<L: Spans>(list: &mut L, at: u64) -> L {
    let mut behind = L::default();
    while let Some(span) = list.pop() {
        if span.1 > at {
            behind.insert(0, (span.0.max(at) - at, span.1 - at));
        }
        if span.0 < at {
            list.insert(list.as_slice().len(), (span.0, span.1.min(at)));
            break;
        }
    }
    behind
}

fn finished_before(list: &[Span], before: u64) -> u64 {
    list.iter()
        .map(|span| span.1.min(before).saturating_sub(span.0))
        .sum()
}

macro_rules! remembering_map {
    ([$($generics:tt)*] $name:ty) => {
        impl $($generics)* FinishedMap for $name {
            #[inline]
            fn mark(&mut self, span: Span, bytes_left: u64, double: &mut dyn FnMut(Span)) -> u64 {
                // Most extents are finished at once. From then on no byte is left,
                // which says it all.
                if self.0.is_empty() && span.1.saturating_sub(span.0) == bytes_left {
                    return bytes_left;
                }
                mark(&mut self.0, span, bytes_left, double)
            }

            fn split_off(&mut self, at: u64, finished: u64) -> Option<Self> {
                if finished_before(&self.0, u64::MAX) != finished {
                    return None;
                }
                Some(Self(split_off(&mut self.0, at)))
            }

            fn finished_before(&self, before: u64) -> u64 {
                finished_before(&self.0, before)
            }
        }
    };
}

remembering_map!([<const N: usize>] FixedFinishedMap<N>);
#[cfg(feature = "alloc")]
remembering_map!([] HeapFinishedMap);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sequence of three marks over six bytes, against a bit a byte.
    fn check_all_marks<M: FinishedMap>() {
        let spans = || (0..6_u64).flat_map(|a| (a + 1..=6).map(move |b| (a, b)));
        for first in spans() {
            for second in spans() {
                for third in spans() {
                    let mut map = M::default();
                    let mut naive = [false; 6];
                    for span in [first, second, third] {
                        let mut doubles = [false; 6];
                        let new = map.mark(span, u64::MAX, &mut |both| {
                            (both.0..both.1)
                                .for_each(|i| doubles[usize::try_from(i).unwrap()] = true);
                        });
                        let mut expected_new = 0;
                        for i in 0..6_u64 {
                            let slot = &mut naive[usize::try_from(i).unwrap()];
                            let inside = span.0 <= i && i < span.1;
                            assert_eq!(doubles[usize::try_from(i).unwrap()], inside && *slot);
                            expected_new += u64::from(inside && !*slot);
                            *slot |= inside;
                        }
                        assert_eq!(new, expected_new);
                    }
                    let total = naive.iter().filter(|done| **done).count() as u64;
                    for at in 0..=6 {
                        let before = naive[..usize::try_from(at).unwrap()]
                            .iter()
                            .filter(|d| **d)
                            .count();
                        assert_eq!(map.finished_before(at), before as u64);
                    }
                    let behind = map.split_off(3, total).unwrap();
                    assert_eq!(map.finished_before(9) + behind.finished_before(9), total);
                    assert_eq!(map.finished_before(3), map.finished_before(9));
                }
            }
        }
    }

    #[test]
    fn o4_a_remembering_map_sees_every_double_finish() {
        check_all_marks::<FixedFinishedMap<4>>();
        #[cfg(feature = "alloc")]
        check_all_marks::<HeapFinishedMap>();
    }

    #[test]
    fn o4_without_memory_only_too_many_bytes_show() {
        let mut doubles = 0;
        let mut map = NoFinishedMap;
        assert_eq!(map.mark((0, 8), 8, &mut |_| doubles += 1), 8);
        assert_eq!(map.mark((0, 8), 0, &mut |_| doubles += 1), 0);
        assert_eq!(doubles, 1);
        assert_eq!(map.split_off(4, 8), None);
    }

    #[test]
    fn a_full_fixed_map_counts_what_it_cannot_remember() {
        let mut map = FixedFinishedMap::<1>::default();
        assert_eq!(map.mark((0, 1), 9, &mut |_| ()), 1);
        assert_eq!(map.mark((4, 5), 8, &mut |_| ()), 1);
        assert_eq!(map.finished_before(9), 1);
        assert!(map.split_off(2, 2).is_none());
    }
}
