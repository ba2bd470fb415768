//! Threads over one cache, in orders that shuttle chooses.
//!
//! Built with `--cfg shuttle` this runs the scenes, or the one that is named,
//! and prints a line for each; `cargo xtask shuttle` judges them. The orders
//! follow from a seed, so that a failure comes again; shuttle prints its
//! schedule besides. Built without, there is nothing to run.

#[cfg(shuttle)]
mod scenes;
#[cfg(shuttle)]
mod stage;

#[cfg(not(shuttle))]
fn main() {}

#[cfg(shuttle)]
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seed = words.iter().find_map(|word| word.parse().ok());
    let name = words.iter().find(|word| word.parse::<u64>().is_err());
    if name.is_some_and(|name| name == "canary") {
        explore::canary();
        return;
    }
    for scene in scenes::SCENES {
        if name.is_none_or(|name| name == scene.name) {
            explore::scene(scene, seed.unwrap_or(1));
        }
    }
}

#[cfg(shuttle)]
mod explore {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use extentwise::Mistake;
    use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
    use shuttle::{Config, FailurePersistence, Runner};

    use crate::scenes::{SCENES, Scene};
    use crate::stage;

    /// Half of the schedules of a scene are random, half have few preemptions.
    const HALF: usize = 600;
    const PREEMPTIONS: usize = 3;

    /// Runs a scene and prints how it went.
    pub(crate) fn scene(scene: &Scene, seed: u64) {
        let random = RandomScheduler::new_from_seed(seed, HALF);
        let few = PctScheduler::new_from_seed(seed, PREEMPTIONS, HALF);
        let print = FailurePersistence::Print;
        let ran = run(scene, random, print.clone()).and_then(|random| {
            let few = run(scene, few, print)?;
            Ok(random + few)
        });
        let (schedules, held) = match ran {
            Ok(schedules) => (schedules, "held"),
            Err(()) => (0, "failed"),
        };
        let Scene { name, rules, .. } = scene;
        println!("scene\t{name}\t{rules}\t{schedules}\t{seed}\t{held}");
    }

    /// Every scene once more, with each mistake; prints how many fail.
    pub(crate) fn canary() {
        std::panic::set_hook(Box::new(|_| {}));
        for mistake in [Mistake::NoWakes, Mistake::NoRecalls] {
            let failed = SCENES.iter().filter(|scene| {
                stage::mistake_once_filled(mistake);
                let random = RandomScheduler::new_from_seed(1, HALF);
                run(scene, random, FailurePersistence::None).is_err()
            });
            let failed: Vec<&str> = failed.map(|scene| scene.name).collect();
            println!("canary\t{mistake:?}\t{}\t{}", failed.len(), SCENES.len());
            eprintln!("{mistake:?} fails {}", failed.join(", "));
        }
    }

    fn run(
        scene: &Scene,
        scheduler: impl Scheduler + 'static,
        persistence: FailurePersistence,
    ) -> Result<usize, ()> {
        let mut config = Config::new();
        config.failure_persistence = persistence;
        let play = scene.play;
        let run = || Runner::new(scheduler, config).run(play);
        catch_unwind(AssertUnwindSafe(run)).map_err(drop)
    }
}
