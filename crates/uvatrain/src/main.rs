//! `uvatrain`, the program. All its code is in the library, and it does not link libtorch.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::process::ExitCode;

fn main() -> ExitCode {
    uvatrain_cli::program()
}
