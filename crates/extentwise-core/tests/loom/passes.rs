//! Models of the pass, stepped under locks held for one step.

use std::sync::{Arc, Mutex};

use extentwise_core::folio::WritebackEnd;
use extentwise_core::geometry::FileRange;
use extentwise_core::ordered::OrderedFlags;
use extentwise_core::writeback::{
    Bio, BioAssembler, BioLimits, FixedSegments, PassContext, PassError, PassReport, Step, Stride,
    WritebackPass, complete_bio,
};

use crate::explore::{Model, Variant};
use crate::scene::{BLOCK, Extents, Folio, Told, block, bytes, extents, folio, join, run, spawn};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "bio_completes_inside_submit",
        rules: "W11",
        floor: 440,
        symptom: "writeback ended",
        scene: bio_completes_inside_submit,
    },
    Model {
        name: "passes_over_neighbouring_ranges",
        rules: "W9, W11",
        floor: 1700,
        symptom: "while a pass held the folio",
        scene: passes_over_neighbouring_ranges,
    },
];

type Segments = FixedSegments<4>;
type Pass = WritebackPass<[u64; 1], ()>;

/// One file: a folio, its extents, and what a reference knows of its
/// writeback, which is kept under the folio's lock.
struct File {
    folio: Folio,
    table: Extents,
    ledger: Mutex<Ledger>,
}

/// Writeback of the folio, counted by what was asked for.
#[derive(Default)]
struct Ledger {
    passes: usize,
    open: bool,
    ended: usize,
    ended_under_a_pass: bool,
    ended_without_a_piece: bool,
}

impl Ledger {
    fn end(&mut self, end: WritebackEnd) {
        if end == WritebackEnd::Ended {
            self.ended_without_a_piece |= !self.open;
            self.open = false;
            self.ended += 1;
            self.ended_under_a_pass |= self.passes > 0;
        }
    }
}

impl File {
    /// So many blocks are dirty, each with an extent, so with a bio, of its own.
    fn new(dirty: &[(u64, u64)], blocks: usize) -> Arc<Self> {
        Arc::new(Self {
            folio: folio(run(0, blocks)),
            table: extents(dirty),
            ledger: Mutex::default(),
        })
    }

    fn ledger<R>(&self, act: impl FnOnce(&mut Ledger) -> R) -> R {
        act(&mut self.ledger.lock().expect("the ledger is not poisoned"))
    }

    fn begin(&self, range: FileRange) -> Pass {
        self.folio.with(|folio| {
            self.ledger(|ledger| ledger.passes += 1);
            let submit = folio.dirty().copied_to([0; 1]);
            let mut submit = submit.expect("four bits fit in a word");
            submit.clear(
                folio
                    .geometry()
                    .blocks_inside(bytes(0, range.start().get() / BLOCK)),
            );
            submit.clear(
                folio
                    .geometry()
                    .blocks_inside(bytes(range.end().get() / BLOCK, 4)),
            );
            let pass = WritebackPass::begin(folio, submit, range, block(4), Stride::Extent);
            pass.expect("the blocks are dirty and the range is in the folio")
        })
    }

    fn step(&self, pass: &mut Pass, bios: &mut BioAssembler<Segments>) -> Step<Segments, ()> {
        self.folio.with(|folio| {
            self.table.with(|table| {
                let mut cx = PassContext {
                    folio,
                    table,
                    bios,
                    observer: &mut (),
                };
                let step = pass.step(&mut cx);
                self.ledger(|ledger| match &step {
                    Step::Queue(_) => ledger.open = true,
                    Step::Done(report) => {
                        ledger.passes -= 1;
                        ledger.end(report.writeback);
                    }
                    _ => {}
                });
                step
            })
        })
    }

    /// Steps `pass` to its end; each bio goes to `send`, also the last.
    fn write(&self, mut pass: Pass, mut send: impl FnMut(Bio<Segments>)) -> PassReport<()> {
        let mut bios = BioAssembler::new(BioLimits::UNLIMITED);
        loop {
            match self.step(&mut pass, &mut bios) {
                Step::Send(bio) => send(bio),
                Step::Done(report) => {
                    bios.take().into_iter().for_each(send);
                    return report;
                }
                _ => {}
            }
        }
    }

    /// Answers how many extents are done with this bio.
    fn complete(&self, bio: &Bio<Segments>) -> usize {
        let mut told = Told::default();
        self.table
            .with(|table| complete_bio(bio, &Ok::<_, ()>(()), table, &mut told));
        for segment in bio.segments() {
            self.folio.with(|folio| {
                let end = folio.end_writeback_bytes(segment.range());
                self.ledger(|ledger| ledger.end(end));
            });
        }
        told.completed.len()
    }

    fn assert_written(&self, blocks: u64) {
        let busy = self
            .folio
            .with(|folio| folio.is_dirty() || folio.is_in_writeback());
        assert!(!busy, "all blocks are written");
        self.table.with(|table| {
            let mut extents = table.iter_in(bytes(0, blocks));
            assert!(extents.all(|extent| extent.flags().contains(OrderedFlags::IO_DONE)));
        });
    }
}

/// A pass writes two blocks around one that has no extent. Each bio is completed
/// by a thread of its own from the moment that it is sent, while the pass goes
/// on. Twin: the pass does not hold the folio.
fn bio_completes_inside_submit(variant: Variant) {
    let file = File::new(&[(0, 1), (2, 3)], 3);
    let pass = file.begin(bytes(0, 4));
    if variant == Variant::Twin {
        // Lets go of the pass's hold before there is anything in writeback.
        let _ = file.folio.end_pass();
    }
    let mut completions = Vec::new();
    let report = file.write(pass, |bio| {
        completions.push(spawn(&file, move |file| file.complete(&bio)));
    });

    let completed: usize = completions.into_iter().map(join).sum();
    assert_eq!(completed, 2, "each extent is handed out once");
    assert_eq!(report.counts.submitted.get(), 2 * BLOCK);
    let file_offset = block(1);
    assert_eq!(
        report.error,
        Some(PassError::MissingOrdered { file_offset })
    );
    let ended = file.ledger(|ledger| ledger.ended);
    assert_eq!(ended, 1, "writeback ended another number of times");
    file.assert_written(3);
}

/// Two passes write a block each of one folio and complete their bios
/// themselves. Twin: a pass lets go of the folio twice.
fn passes_over_neighbouring_ranges(variant: Variant) {
    let file = File::new(&[(0, 1), (1, 2)], 2);
    let passes = [0, 1].map(|at| {
        spawn(&file, move |file| {
            let pass = file.begin(bytes(at, at + 1));
            let mut completed = 0;
            let report = file.write(pass, |bio| completed += file.complete(&bio));
            if variant == Variant::Twin {
                file.folio.with(|folio| {
                    let end = folio.end_pass();
                    file.ledger(|ledger| ledger.end(end));
                });
            }
            (completed, report)
        })
    });

    for (completed, report) in passes.map(join) {
        assert_eq!(completed, 1, "each extent is handed out once");
        assert_eq!(report.error, None);
        assert_eq!(report.counts.total().get(), BLOCK);
    }
    file.ledger(|ledger| {
        assert!(
            !ledger.ended_under_a_pass,
            "writeback ended while a pass held the folio"
        );
        assert!(!ledger.ended_without_a_piece, "writeback ended twice");
        assert!(!ledger.open, "writeback that began has ended");
    });
    file.assert_written(2);
}
