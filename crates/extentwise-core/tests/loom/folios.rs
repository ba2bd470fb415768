//! Models of a folio's state, `SharedFolio`.

use std::sync::Arc;

use extentwise_core::folio::WritebackEnd;
use extentwise_core::geometry::BlockIndex;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::explore::{Model, Variant};
use crate::scene::{Folio, bytes, folio, join, run, spawn};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "dirty_again_during_writeback",
        rules: "C3",
        floor: 33_000,
        symptom: "a write was lost",
        scene: dirty_again_during_writeback,
    },
    Model {
        name: "clear_dirty_before_writeback",
        rules: "W6, W12",
        floor: 51_000,
        symptom: "the sync missed",
        scene: clear_dirty_before_writeback,
    },
    Model {
        name: "sync_tag_against_pass",
        rules: "W12",
        floor: 2750,
        symptom: "the sync's mark was dropped",
        scene: sync_tag_against_pass,
    },
    Model {
        name: "failed_write_against_eviction",
        rules: "C2, C12",
        floor: 7400,
        symptom: "failed content was evicted",
        scene: failed_write_against_eviction,
    },
    Model {
        name: "eviction_against_writer",
        rules: "C5, C12",
        floor: 390,
        symptom: "a dirty block was evicted",
        scene: eviction_against_writer,
    },
    Model {
        name: "invalidate_against_start_of_writeback",
        rules: "C12",
        floor: 2750,
        symptom: "memory that was given back",
        scene: invalidate_against_start_of_writeback,
    },
];

/// A folio with the memory of its block 0: a bit for each writer, ordered by
/// nothing but the folio's lock.
struct Page {
    folio: Folio,
    memory: AtomicU32,
}

impl Page {
    /// Block 0 is dirty.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            folio: folio(run(0, 1)),
            memory: AtomicU32::new(0),
        })
    }

    fn write(&self, bit: u32) {
        self.memory.fetch_or(bit, Ordering::Relaxed);
        self.folio.mark_dirty(run(0, 1));
    }

    /// What a device reads when it is given the block.
    fn content(&self) -> u32 {
        self.memory.load(Ordering::Relaxed)
    }
}

/// Two writers dirty a block that goes through writeback. Twin: the block is
/// made clean when its write completes.
fn dirty_again_during_writeback(variant: Variant) {
    let page = Page::new();
    let pass = spawn(&page, move |page| {
        page.folio.with(|folio| {
            if variant == Variant::Core {
                folio.clear_dirty(run(0, 1));
            }
            folio.start_writeback(run(0, 1));
        });
        let device = page.content();
        let end = page.folio.with(|folio| {
            if variant == Variant::Twin {
                folio.clear_dirty(run(0, 1));
            }
            folio.end_writeback(run(0, 1))
        });
        (device, end)
    });
    let writers = [1, 2].map(|bit| spawn(&page, move |page| page.write(bit)));

    let (device, end) = join(pass);
    writers.into_iter().for_each(join);
    assert_eq!(end, WritebackEnd::Ended);
    let dirty = page.folio.with(|folio| folio.is_dirty());
    assert!(
        dirty || device == page.content(),
        "a write was lost: clean, and the device holds something else"
    );
}

/// A pass against a writer and against a sync of what its own thread wrote.
/// The steps of the pass are locked one by one, so others come in between.
/// Twin: the pass sets writeback, queues the block, and then clears dirty.
fn clear_dirty_before_writeback(variant: Variant) {
    let page = Page::new();
    let pass = spawn(&page, move |page| match variant {
        Variant::Core => {
            page.folio.clear_dirty(run(0, 1));
            page.folio.start_writeback(run(0, 1));
            page.content()
        }
        Variant::Twin => {
            page.folio.start_writeback(run(0, 1));
            let device = page.content();
            page.folio.clear_dirty(run(0, 1));
            device
        }
    });
    let writer = spawn(&page, |page| page.write(1));
    let sync = spawn(&page, |page| {
        page.write(2);
        page.folio.tag_for_sync();
    });

    let device = join(pass);
    join(writer);
    join(sync);
    let (dirty, tagged) = page
        .folio
        .with(|folio| (folio.is_dirty(), folio.is_tagged_for_sync()));
    assert!(
        device & 2 != 0 || (dirty && tagged),
        "the sync missed what was dirty when it began"
    );
    assert!(device & 1 != 0 || dirty, "a write was lost");
}

/// A pass writes one block of a folio while a sync marks the folio for another
/// one, and a writer dirties the first again. Twin: the mark lies beside the
/// folio, and the pass decides outside of the lock that it can go.
fn sync_tag_against_pass(variant: Variant) {
    let scene = Arc::new((folio(run(0, 1)), AtomicBool::new(false)));
    let pass = spawn(&scene, move |(folio, beside)| {
        let dirty = folio.with(|folio| {
            folio.clear_dirty(run(0, 1));
            folio.start_writeback(run(0, 1));
            folio.is_dirty()
        });
        if variant == Variant::Twin && !dirty {
            beside.store(false, Ordering::SeqCst);
        }
        folio.end_writeback(run(0, 1))
    });
    let writer = spawn(&scene, |(folio, _)| folio.mark_dirty(run(0, 1)));
    let sync = spawn(&scene, move |(folio, beside)| {
        folio.mark_dirty(run(1, 2));
        folio.tag_for_sync();
        if variant == Variant::Twin {
            beside.store(true, Ordering::SeqCst);
        }
    });

    let end = join(pass);
    join(writer);
    join(sync);
    assert_eq!(end, WritebackEnd::Ended);
    let (folio, beside) = &*scene;
    let tagged = match variant {
        Variant::Core => folio.with(|folio| folio.is_tagged_for_sync()),
        Variant::Twin => beside.load(Ordering::SeqCst),
    };
    assert!(tagged, "the sync's mark was dropped, block 1 is dirty");
}

/// A write fails while two threads look for something to evict. Twin: the
/// writeback ends before the block is dirty again.
fn failed_write_against_eviction(variant: Variant) {
    let folio = Arc::new(folio(run(0, 0)));
    folio.start_writeback(run(0, 1));
    let failure = spawn(&folio, move |folio| {
        if variant == Variant::Core {
            folio.mark_dirty(run(0, 1));
        }
        let end = folio.end_writeback(run(0, 1));
        if variant == Variant::Twin {
            folio.mark_dirty(run(0, 1));
        }
        end
    });
    let evictors = [(); 2].map(|()| {
        spawn(&folio, |folio| {
            [(); 2].map(|()| folio.with(|folio| !folio.is_dirty() && !folio.is_in_writeback()))
        })
    });

    assert_eq!(join(failure), WritebackEnd::Ended);
    let evicted = evictors.map(join).concat().contains(&true);
    assert!(!evicted, "failed content was evicted");
}

/// Two threads evict what is clean while a third writes to what is there.
/// Twin: between the look and the eviction the lock is dropped.
fn eviction_against_writer(variant: Variant) {
    let folio = Arc::new(folio(run(0, 0)));
    let writer = spawn(&folio, |folio| {
        folio.with(|folio| {
            let present = folio.is_block_uptodate(BlockIndex::new(0));
            if present {
                folio.mark_dirty(run(0, 1));
            }
            present
        })
    });
    let evictors = [(); 2].map(|()| {
        spawn(&folio, move |folio| match variant {
            Variant::Core => folio.with(|folio| {
                !folio.is_dirty()
                    && !folio.is_in_writeback()
                    && folio.invalidate(bytes(0, 4)).is_ok()
            }),
            Variant::Twin => {
                folio.with(|folio| !folio.is_dirty() && !folio.is_in_writeback())
                    && folio.invalidate(bytes(0, 4)).is_ok()
            }
        })
    });

    let wrote = join(writer);
    let evicted = evictors.map(join).contains(&true);
    let dirty = folio.with(|folio| folio.is_dirty());
    assert_eq!(wrote, dirty, "a dirty block was evicted");
    assert!(wrote || evicted, "a block is gone and nobody evicted it");
}

/// A truncate gives a folio's memory back while two passes begin to write a
/// block each. Twin: the truncate looks for writeback and then forgets the
/// blocks, with the lock dropped in between.
fn invalidate_against_start_of_writeback(variant: Variant) {
    let scene = Arc::new((folio(run(0, 2)), AtomicBool::new(true)));
    let passes = [0, 1].map(|at: usize| {
        spawn(&scene, move |(folio, memory)| {
            let mine = run(at, at + 1);
            let started = folio.with(|folio| {
                let dirty = folio.dirty().test(BlockIndex::new(at));
                if dirty {
                    folio.clear_dirty(mine);
                    folio.start_writeback(mine);
                }
                dirty
            });
            let sound = !started || memory.load(Ordering::Relaxed);
            // Whether this piece was the last is not this scene's question.
            let _ = folio.end_writeback(mine);
            sound
        })
    });
    let truncate = spawn(&scene, move |(folio, memory)| {
        let forgotten = match variant {
            Variant::Core => folio.invalidate(bytes(0, 2)).is_ok(),
            Variant::Twin => folio.with(|folio| !folio.is_in_writeback()),
        };
        if forgotten {
            memory.store(false, Ordering::Relaxed);
        }
        if forgotten && variant == Variant::Twin {
            // Too late to be told that it is in writeback.
            let _ = folio.invalidate(bytes(0, 2));
        }
        forgotten
    });

    let sound = passes.map(join);
    join(truncate);
    assert!(
        sound.iter().all(|sound| *sound),
        "a device read memory that was given back"
    );
}
