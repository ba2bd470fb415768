//! The signs of a strip.

/// What one column of a row shows; in order of gravity, for blocks that share
/// a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Glyph {
    /// Nothing of what the row is about.
    Nothing,
    /// Dirty, and not of this pass.
    Dirty,
    ToWrite,
    /// The ordered extent of this place in file order.
    Extent(usize),
    SeveralExtents,
    Submitted,
    BeyondEof,
    Refused,
    MissingOrdered,
    InWriteback,
    /// A block that the write covers in part.
    PartOfWrite,
    InWrite,
    /// A flag that was there, and stays.
    Kept,
    Cleared,
    Set,
    Mapped,
    Zeroed,
    Read,
    Failed,
}

impl Glyph {
    pub(crate) fn symbol(self) -> char {
        match self {
            Glyph::Nothing => '.',
            Glyph::Dirty => 'o',
            Glyph::ToWrite => 'W',
            Glyph::Extent(index) => letter(index),
            Glyph::SeveralExtents => '*',
            Glyph::Submitted => '>',
            Glyph::BeyondEof => '~',
            Glyph::Refused => 'x',
            Glyph::MissingOrdered | Glyph::Failed => '!',
            Glyph::InWriteback => 'w',
            Glyph::PartOfWrite => '/',
            Glyph::InWrite => '=',
            Glyph::Kept => '#',
            Glyph::Cleared => '-',
            Glyph::Set => '+',
            Glyph::Mapped => 'm',
            Glyph::Zeroed => 'z',
            Glyph::Read => 'r',
        }
    }

    /// For the legend; empty where the row says it all.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Glyph::Nothing | Glyph::Extent(_) => "",
            Glyph::Dirty => "dirty, not of this pass",
            Glyph::ToWrite => "to write",
            Glyph::SeveralExtents => "several OEs",
            Glyph::Submitted => "submitted",
            Glyph::BeyondEof => "past EOF",
            Glyph::Refused => "refused",
            Glyph::MissingOrdered => "no OE",
            Glyph::InWriteback => "in writeback",
            Glyph::PartOfWrite => "written in part",
            Glyph::InWrite => "written",
            Glyph::Kept => "flag kept",
            Glyph::Cleared => "flag cleared",
            Glyph::Set => "flag set",
            Glyph::Mapped => "mapped",
            Glyph::Zeroed => "zeroed",
            Glyph::Read => "read",
            Glyph::Failed => "failed",
        }
    }

    pub(crate) fn colour(self) -> &'static str {
        const EXTENTS: [&str; 6] = [
            "#8ecae6", "#b7e4c7", "#ffd6a5", "#cdb4db", "#f1e3a4", "#a8dadc",
        ];
        match self {
            Glyph::Nothing => "#f4f4f2",
            Glyph::Dirty => "#d9c9a3",
            Glyph::ToWrite | Glyph::InWrite => "#e9a23b",
            Glyph::PartOfWrite => "#f3cf95",
            Glyph::Extent(index) => EXTENTS[index % EXTENTS.len()],
            Glyph::SeveralExtents => "#bbbbbb",
            Glyph::Submitted | Glyph::Set => "#5aa469",
            Glyph::BeyondEof => "#b9b4c7",
            Glyph::Refused | Glyph::MissingOrdered | Glyph::Failed => "#d1495b",
            Glyph::InWriteback | Glyph::Read => "#7aa6d8",
            Glyph::Kept => "#9bc4a3",
            Glyph::Cleared => "#e5b8b8",
            Glyph::Mapped => "#d8d3e8",
            Glyph::Zeroed => "#c9d6df",
        }
    }

    /// One glyph for blocks that share a column.
    pub(crate) fn gravest(blocks: &[Glyph]) -> Glyph {
        let gravest = blocks.iter().copied().max().unwrap_or(Glyph::Nothing);
        match gravest {
            Glyph::Extent(_)
                if blocks
                    .iter()
                    .any(|&block| block != gravest && block != Glyph::Nothing) =>
            {
                Glyph::SeveralExtents
            }
            _ => gravest,
        }
    }
}

const LETTERS: usize = 52;

fn letter(index: usize) -> char {
    let letter = u8::try_from(index % LETTERS).unwrap_or(0);
    match letter {
        0..26 => char::from(b'A' + letter),
        _ => char::from(b'a' + (letter - 26)),
    }
}

/// The name of an ordered extent: its letter, with a number once letters have
/// run out.
pub(crate) fn extent_name(index: usize) -> String {
    match index / LETTERS {
        0 => letter(index).to_string(),
        round => format!("{}{round}", letter(index)),
    }
}
