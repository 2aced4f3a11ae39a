//! `uvatrain`, the command line: it parses, calls the libraries, and prints.
//!
//! The way in: [`flags`] declares every option once; `main` hands them to one file of [`commands`]; those call
//! `uva-graph` and `uva-runtime` and print through [`ui`]; [`exit`] turns what comes back into an exit code. No
//! algorithm lives here.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a binary has no public items; what needs a word has one")]

mod commands;
mod exit;
mod flags;
mod ui;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match flags::Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version go to stdout and are a success; usage errors go to stderr with code 2. The write may fail
        // (a closed pipe): there is nobody left to tell.
        Err(usage) => {
            let _ = usage.print();
            return ExitCode::from(usage.exit_code() as u8);
        }
    };
    ui::log::install();
    exit::conclude(commands::run(cli.command))
}
