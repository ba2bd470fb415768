//! `describe TARGET FILE`: the case in a fuzz artifact, a test that holds it,
//! and whether it fails now.

use std::panic::catch_unwind;
use std::process::ExitCode;

use extentwise_testkit::property::{TARGETS, target};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, path] = words.as_slice() else {
        eprintln!("usage: describe TARGET FILE");
        return ExitCode::from(2);
    };
    let Some(target) = target(name) else {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("no target is called `{name}`, only: {}", known.join(", "));
        return ExitCode::from(2);
    };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::from(2);
        }
    };
    println!("{}\n", (target.describe)(&bytes).trim_end());
    println!("#[test]\nfn {name}_holds_where_it_once_failed() {{");
    println!(
        "    extentwise_testkit::property::{name}(b\"{}\");\n}}\n",
        bytes.escape_ascii()
    );
    let verdict = catch_unwind(|| (target.run)(&bytes));
    println!("{name} {}", if verdict.is_ok() { "holds" } else { "FAILS" });
    ExitCode::from(u8::from(verdict.is_err()))
}
