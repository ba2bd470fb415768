//! Files of an operating system under a page cache, for programs that want to
//! use one rather than to embed one.
//!
//! [`Files`] are opened when they are needed, any number of them. A [`Cache`] over
//! them is used by one thread ([`alone()`]), or shared by many ([`SharedCache`]);
//! behind it are the engine's drivers and the page cache for threads. None of
//! this has type parameters: the engine is compiled here, once for each way.

#![forbid(unsafe_code)]

mod alone;
mod cache;
mod claim;
mod files;
pub mod pattern;
mod shared;
mod times;

pub use alone::alone;
pub use cache::{Cache, Fill, Gauge, See};
pub use claim::Claim;
pub use files::{DeviceKind, Durability, Files, Rings};
pub use shared::SharedCache;
pub use times::{Row, Times};
