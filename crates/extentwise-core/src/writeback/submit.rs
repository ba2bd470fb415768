//! Driving a pass over a submitter, and completing its bios.

use super::{Bio, BioAssembler, PassContext, PassReport, Piece, SegmentList, Step, WritebackPass};
use crate::folio::FolioState;
use crate::geometry::FileRange;
use crate::ordered::{ExtentStore, FinishObserver, Finished, IoOutcome, OrderedTable};

/// Takes what a pass decides to a device.
///
/// Bios that the device completes at once are kept by the submitter until
/// [`run`] returns, and completed then; who must complete them inside the call
/// steps the pass instead.
pub trait Submit<S>: FinishObserver {
    /// Why a piece is refused; it comes back as it is in the report (E3).
    type Error;

    /// Zeroes these bytes of the folio's memory (S4).
    fn zero(&mut self, range: FileRange);

    /// Takes or refuses a piece that is about to be queued (W8).
    fn queue(&mut self, piece: &Piece) -> Result<(), Self::Error>;

    /// Sends a bio. A failure of the device is a completion with error, not a
    /// refusal.
    fn send(&mut self, bio: Bio<S>);

    /// A run past the end of the file was passed over (W5).
    fn beyond_eof(&mut self, range: FileRange) {
        let _ = range;
    }

    /// A gap without an ordered extent was passed over (W7).
    fn missing_ordered(&mut self, range: FileRange) {
        let _ = range;
    }
}

/// Steps `pass` to its end. The bio in progress stays with `bios`, for the next
/// folio of the file; after the last, send what [`BioAssembler::take`] answers.
pub fn run<V, W, T, S, D>(
    mut pass: WritebackPass<V, D::Error>,
    folio: &mut FolioState<W>,
    table: &mut OrderedTable<T>,
    bios: &mut BioAssembler<S>,
    submit: &mut D,
) -> PassReport<D::Error>
where
    V: AsRef<[u64]>,
    W: AsRef<[u64]> + AsMut<[u64]>,
    T: ExtentStore,
    S: SegmentList,
    D: Submit<S>,
{
    loop {
        let mut cx = PassContext {
            folio: &mut *folio,
            table: &mut *table,
            bios: &mut *bios,
            observer: &mut *submit,
        };
        match pass.step(&mut cx) {
            Step::Zero(range) => submit.zero(range),
            Step::Queue(piece) => {
                if let Err(error) = submit.queue(&piece) {
                    let mut cx = PassContext {
                        folio: &mut *folio,
                        table: &mut *table,
                        bios: &mut *bios,
                        observer: &mut *submit,
                    };
                    pass.refuse(error, &mut cx);
                }
            }
            Step::Send(bio) => submit.send(bio),
            Step::BeyondEof(range) => submit.beyond_eof(range),
            Step::MissingOrdered(range) => submit.missing_ordered(range),
            Step::Done(report) => return report,
        }
    }
}

/// Finishes the bytes of a completed bio in its ordered extent (O4), with the
/// end of its valid bytes (S4). The embedder then follows its error policy, and
/// last ends the writeback of each segment in its folio
/// ([`FolioState::end_writeback_bytes`]): dirty is set again *before* writeback
/// ends, so that failed content is at no instant clean (C2).
pub fn complete_bio<S: SegmentList, T: ExtentStore, E>(
    bio: &Bio<S>,
    result: &Result<(), E>,
    table: &mut OrderedTable<T>,
    observer: &mut impl FinishObserver,
) -> Finished {
    let outcome = match result {
        Ok(()) => IoOutcome::Written {
            valid_end: bio.valid_end(),
        },
        Err(_) => IoOutcome::Failed,
    };
    table.finish(bio.file_range(), outcome, observer)
}
