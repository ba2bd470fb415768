//! The `extentwise` command; all of it lives in the library beside this file.

use std::process::ExitCode;

fn main() -> ExitCode {
    extentwise_cli::main()
}
