//! Models of what threads do to the core's shared objects, explored by loom in
//! every order: `cargo xtask loom`.
//!
//! Each model runs twice: over the core, which must hold in all executions, and
//! as its *twin*, the same model with one mistake that embedders make, which
//! must be rejected with the symptom that the model names. A model that
//! accepts its twin has proven nothing. `docs/concurrency.md` says which lock
//! or atomic each model is about.

#[cfg(loom)]
mod errors;
#[cfg(loom)]
mod explore;
#[cfg(loom)]
mod extents;
#[cfg(loom)]
mod folios;
#[cfg(loom)]
mod passes;
#[cfg(loom)]
mod scene;

/// Without `--cfg loom` the core is built over its real locks, which loom
/// cannot see: there is nothing to explore.
#[cfg(not(loom))]
fn main() {}

#[cfg(loom)]
fn main() -> std::process::ExitCode {
    let models: Vec<_> = [
        extents::MODELS,
        folios::MODELS,
        passes::MODELS,
        errors::MODELS,
    ]
    .concat();
    explore::run(&models)
}
