//! I/O logs.
