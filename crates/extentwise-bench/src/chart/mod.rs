//! Pictures of what was measured: text in the terminal, SVG in the documentation.

pub(crate) mod histogram;
pub(crate) mod svg;
