//! `search [wide]`: searches every shape to its end, on all processors, and
//! prints what was seen, a count a line; then sees that mistakes are found.
//!
//! `wide` adds shapes that take minutes each.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use extentwise_testkit::search::{Mistake, SHAPES, Searched, Shape, WIDE_SHAPES, search};

/// A mistake is found within the first states of one shape or another.
const STATES_FOR_A_MISTAKE: u64 = 100_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let shapes: Vec<&Shape> = match words[..] {
        [] => SHAPES.iter().collect(),
        // The longest first, so that no processor is left with it at the end.
        [ref word] if word == "wide" => WIDE_SHAPES.iter().chain(SHAPES).collect(),
        _ => {
            eprintln!("usage: search [wide]");
            return ExitCode::from(2);
        }
    };
    let mut passed = true;
    let mut states = 0;
    let mut closed = 0;
    for (shape, found) in search_all(&shapes) {
        states += found.states;
        closed += u64::from(found.closed);
        eprintln!(
            "{}: {} states, {} steps",
            shape.name, found.states, found.steps
        );
        if let Some(fault) = found.fault {
            println!("failed\tsearch\t{}\t{fault}", shape.name);
            passed = false;
        }
    }
    let mistakes = Mistake::ALL.iter().filter(|mistake| is_found(**mistake));
    println!("count\tstates\t{states}");
    println!("count\tshapes\t{}", shapes.len());
    println!("count\tclosed\t{closed}");
    println!("count\tmistakes\t{}", Mistake::ALL.len());
    println!("count\tfound\t{}", mistakes.count());
    ExitCode::from(u8::from(!passed))
}

/// Each shape on one thread, the threads on all processors.
fn search_all<'a>(shapes: &[&'a Shape]) -> Vec<(&'a Shape, Searched)> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(shape) = shapes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = search(shape, Mistake::No, u64::MAX);
                    if let Ok(mut done) = done.lock() {
                        done.push((*shape, found));
                    }
                }
            });
        }
    });
    done.into_inner().unwrap_or_default()
}

fn is_found(mistake: Mistake) -> bool {
    let mut shapes = SHAPES.iter();
    shapes.any(|shape| search(shape, mistake, STATES_FOR_A_MISTAKE).fault.is_some())
}
