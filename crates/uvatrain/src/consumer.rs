//! `uvatrain-consumer`, the program with the built-in models and the only one that links libtorch. `uvatrain train`,
//! `predict` and `evaluate` find it in their own directory and start it.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::process::ExitCode;

use uvatrain_cli::Models;

fn main() -> ExitCode {
    uvatrain_cli::consumer_program(Models {
        consume: uvatrain_consumer::consume,
        predict: uvatrain_consumer::inference::predict,
        evaluate: uvatrain_consumer::inference::evaluate,
        torch_on_gpu: uvatrain_consumer::torch_on_gpu,
    })
}
