//! `uvatrain-consumer`, the program that trains the built-in models: the only one that links libtorch. `uvatrain train`
//! finds it beside itself and starts it.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::process::ExitCode;

use uvatrain_cli::Models;

fn main() -> ExitCode {
    uvatrain_cli::consumer_program(Models {
        consume: uvatrain_consumer::consume,
        torch_on_gpu: uvatrain_consumer::torch_on_gpu,
    })
}
