//! Devices of an operating system below the engine.

#![forbid(unsafe_code)]
