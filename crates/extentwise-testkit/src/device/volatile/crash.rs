//! What a power cut leaves.

use extentwise_device::DiskByte;

use super::super::{Image, SECTOR};
use super::Piece;
use crate::seed;

/// Pieces of which every combination is tried at the most: 2^20 images.
const EXACT_MAX: usize = 20;

/// What a power cut does to a piece of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Nothing of it was durable.
    Lost,
    /// All of it was.
    Kept,
    /// These sectors of it were, counted from its first byte.
    Torn {
        /// The first sector that is new.
        from: usize,
        /// The first behind it that is old.
        to: usize,
    },
}

/// An image after a power cut, and what led to it.
#[derive(Clone, Debug)]
pub struct CrashImage {
    /// The fate of each piece, oldest first; what
    /// [`VolatileDevice::crash`](super::VolatileDevice::crash) takes.
    pub fates: Vec<Fate>,
    /// The bytes that are left.
    pub image: Image,
}

/// Images after a power cut; see
/// [`VolatileDevice::crash_images`](super::VolatileDevice::crash_images).
#[derive(Clone, Debug)]
pub struct CrashImages {
    durable: Image,
    pieces: Vec<Piece>,
    stage: Stage,
    /// The seed's state.
    state: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The combination with these bits.
    Subset(u64),
    /// This tear.
    Tear(Tear),
    /// A drawn image: how many are drawn, and of how many.
    Sample {
        drawn: usize,
        samples: usize,
    },
    Done,
}

/// A block torn behind sector `cut`, in one of four `variant`s: the first or the
/// second part is new, and the others are lost or kept.
#[derive(Clone, Copy, Debug)]
struct Tear {
    piece: usize,
    cut: usize,
    variant: u8,
}

impl CrashImages {
    pub(super) fn new(
        durable: Image,
        pieces: Vec<Piece>,
        max_exact: usize,
        samples: usize,
        seed: u64,
    ) -> Self {
        let stage = if pieces.len() <= max_exact.min(EXACT_MAX) {
            Stage::Subset(0)
        } else {
            Stage::Sample { drawn: 0, samples }
        };
        Self {
            durable,
            pieces,
            stage,
            state: seed,
        }
    }

    /// Whether every combination of pieces comes, or only some that are drawn.
    /// To be asked before the first image.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !matches!(self.stage, Stage::Sample { .. })
    }

    /// The fates of the next image, also of those that another one equals.
    fn next_fates(&mut self) -> Option<Vec<Fate>> {
        match self.stage {
            Stage::Subset(bits) => {
                self.stage = if bits + 1 < 1 << self.pieces.len() {
                    Stage::Subset(bits + 1)
                } else {
                    Stage::Tear(Tear {
                        piece: 0,
                        cut: 1,
                        variant: 0,
                    })
                };
                let fate = |index| match bits >> index & 1 {
                    0 => Fate::Lost,
                    _ => Fate::Kept,
                };
                Some((0..self.pieces.len()).map(fate).collect())
            }
            Stage::Tear(tear) => self.next_tear(tear),
            Stage::Sample { drawn, samples } if drawn < samples => {
                let drawn_now = drawn + 1;
                self.stage = Stage::Sample {
                    drawn: drawn_now,
                    samples,
                };
                let pieces = self.pieces.iter();
                let state = &mut self.state;
                Some(match drawn {
                    0 => pieces.map(|_| Fate::Lost).collect(),
                    1 => pieces.map(|_| Fate::Kept).collect(),
                    _ => pieces.map(|piece| drawn_fate(state, piece)).collect(),
                })
            }
            Stage::Sample { .. } | Stage::Done => None,
        }
    }

    fn next_tear(&mut self, mut tear: Tear) -> Option<Vec<Fate>> {
        while let Some(piece) = self.pieces.get(tear.piece) {
            let sectors = piece.sectors();
            if tear.cut < sectors {
                let others = [Fate::Lost, Fate::Kept][usize::from(tear.variant / 2)];
                let mut fates = vec![others; self.pieces.len()];
                let (from, to) =
                    [(0, tear.cut), (tear.cut, sectors)][usize::from(tear.variant % 2)];
                fates[tear.piece] = Fate::Torn { from, to };
                tear.variant = (tear.variant + 1) % 4;
                tear.cut += usize::from(tear.variant == 0);
                self.stage = Stage::Tear(tear);
                return Some(fates);
            }
            tear = Tear {
                piece: tear.piece + 1,
                cut: 1,
                variant: 0,
            };
        }
        self.stage = Stage::Done;
        None
    }

    /// Whether nothing of a piece is hidden by a later one that is kept: else
    /// the image without it is the same.
    fn is_told_apart(&self, fates: &[Fate]) -> bool {
        let pieces = || self.pieces.iter().zip(fates).enumerate();
        let hidden = |index: usize, piece: &Piece| {
            pieces()
                .skip(index + 1)
                .any(|(_, (later, fate))| *fate == Fate::Kept && later.covers(piece))
        };
        pieces().all(|(index, (piece, fate))| *fate == Fate::Lost || !hidden(index, piece))
    }
}

impl Iterator for CrashImages {
    type Item = CrashImage;

    fn next(&mut self) -> Option<CrashImage> {
        loop {
            let fates = self.next_fates()?;
            let sampled = matches!(self.stage, Stage::Sample { .. });
            if sampled || self.is_told_apart(&fates) {
                let image = image(&self.durable, &self.pieces, &fates);
                return Some(CrashImage { fates, image });
            }
        }
    }
}

/// The durable bytes with what the fates leave of the pieces.
pub(super) fn image(durable: &Image, pieces: &[Piece], fates: &[Fate]) -> Image {
    let mut image = durable.clone();
    for (piece, fate) in pieces.iter().zip(fates) {
        let (from, to) = match fate {
            Fate::Lost => (0, 0),
            Fate::Kept => (0, piece.sectors()),
            Fate::Torn { from, to } => (*from, *to),
        };
        let len = piece.bytes.len();
        let (from, to) = (from.saturating_mul(SECTOR), to.saturating_mul(SECTOR));
        if let Some(new) = piece.bytes.get(from..to.min(len)) {
            let at = piece.at.saturating_add(from as u64);
            image.write(DiskByte::new(at), new);
        }
    }
    image
}

/// Lost or kept, each three times of eight, else torn.
fn drawn_fate(state: &mut u64, piece: &Piece) -> Fate {
    let number = seed::next(state);
    let sectors = piece.sectors();
    match number % 8 {
        0..=2 => Fate::Lost,
        3..=5 => Fate::Kept,
        side if sectors > 1 => {
            let cuts = (sectors - 1) as u64;
            let cut = 1 + usize::try_from((number >> 3) % cuts).unwrap_or(0);
            let (from, to) = if side == 6 { (0, cut) } else { (cut, sectors) };
            Fate::Torn { from, to }
        }
        6 => Fate::Lost,
        _ => Fate::Kept,
    }
}
