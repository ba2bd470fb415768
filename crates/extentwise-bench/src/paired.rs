//! Measuring two ways or more side by side.

use std::hint::black_box;
use std::time::Instant;

/// How much work is put into a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Minutes for all rows.
    Quick,
    Full,
}

impl Effort {
    /// Pairs of a row whose sides take microseconds.
    pub(crate) const fn pairs(self) -> usize {
        match self {
            Self::Quick => 101,
            Self::Full => 401,
        }
    }
}

/// Medians of both sides, and of the ratios pair by pair.
#[derive(Clone, Debug)]
pub(crate) struct Paired {
    pub(crate) ours: f64,
    pub(crate) peer: f64,
    pub(crate) peer_name: String,
    /// The peer's time in ours: above 1 means that ours is faster.
    pub(crate) ratio: f64,
}

/// Somebody to compare with, and what takes its time once.
pub(crate) struct Peer<'a> {
    name: String,
    measure: Box<dyn FnMut() -> f64 + 'a>,
}

impl<'a> Peer<'a> {
    pub(crate) fn new(name: impl Into<String>, measure: impl FnMut() -> f64 + 'a) -> Self {
        Self {
            name: name.into(),
            measure: Box::new(measure),
        }
    }
}

/// Ours against one peer.
pub(crate) fn pair(
    rounds: usize,
    ours: impl FnMut() -> f64,
    peer_name: &str,
    peer: impl FnMut() -> f64,
) -> Paired {
    against_best(rounds, ours, vec![Peer::new(peer_name, peer)])
}

/// Ours against the fastest of some peers.
pub(crate) fn against_best(
    rounds: usize,
    ours: impl FnMut() -> f64,
    peers: Vec<Peer<'_>>,
) -> Paired {
    let all = against_all(rounds, ours, peers);
    let best = all.into_iter().min_by(|a, b| a.peer.total_cmp(&b.peer));
    best.unwrap_or(Paired {
        ours: f64::NAN,
        peer: f64::NAN,
        peer_name: "nobody".into(),
        ratio: f64::NAN,
    })
}

/// Ours against each of some peers. All are measured once a round, in an order that
/// turns around each time; the first round warms up and does not count.
pub(crate) fn against_all(
    rounds: usize,
    mut ours: impl FnMut() -> f64,
    mut peers: Vec<Peer<'_>>,
) -> Vec<Paired> {
    let mut own_times = Vec::with_capacity(rounds);
    let mut peer_times = vec![Vec::with_capacity(rounds); peers.len()];
    for round in 0..=rounds {
        let ours_first = round % 2 == 0;
        let mut own_time = if ours_first { ours() } else { 0.0 };
        let times: Vec<f64> = peers.iter_mut().map(|peer| (peer.measure)()).collect();
        if !ours_first {
            own_time = ours();
        }
        if round > 0 {
            own_times.push(own_time);
            for (all, time) in peer_times.iter_mut().zip(times) {
                all.push(time);
            }
        }
    }
    let with = |(peer, times): (&Peer<'_>, Vec<f64>)| {
        let ratios = own_times.iter().zip(&times).map(|(own, peer)| peer / own);
        Paired {
            ratio: median(ratios.collect()),
            ours: median(own_times.clone()),
            peer: median(times),
            peer_name: peer.name.clone(),
        }
    };
    peers.iter().zip(peer_times).map(with).collect()
}

/// Of an odd number of values, or nearly so.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Nanoseconds of one call, over so many.
pub(crate) fn time<T>(calls: u32, mut call: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn the_fastest_peer_counts_and_sides_take_turns() {
        let order = RefCell::new(String::new());
        let say = |who: char, time: f64| {
            order.borrow_mut().push(who);
            time
        };
        let peers = vec![
            Peer::new("slow", || say('s', 9.0)),
            Peer::new("fast", || say('f', 3.0)),
        ];
        let paired = against_best(3, || say('o', 2.0), peers);
        assert_eq!(*order.borrow(), "osfsfoosfsfo");
        assert_eq!(paired.peer_name, "fast");
        assert!((paired.ratio - 1.5).abs() < 1e-9);
    }

    #[test]
    fn the_median_does_not_see_an_outlier() {
        assert!((median(vec![1.0, 900.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
    }
}
