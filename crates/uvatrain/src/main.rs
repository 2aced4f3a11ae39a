//! `uvatrain`, the program: all of it is the library's, and nothing of it links libtorch.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::process::ExitCode;

fn main() -> ExitCode {
    uvatrain_cli::program()
}
