//! `uvatrain`, the command line: it parses, calls the libraries, and prints.
//!
//! The way in: [`flags`] declares every option once; [`config`] reads them from the command line and from a file;
//! `main` hands them to one file of [`commands`]; those call `uva-graph` and `uva-runtime` and print through [`ui`];
//! [`exit`] turns what comes back into an exit code. No algorithm lives here.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a binary has no public items; what needs a word has one")]

mod commands;
mod config;
mod exit;
mod flags;
mod ui;

use std::process::ExitCode;

use config::Asked;

fn main() -> ExitCode {
    ui::log::install();
    let asked = match config::parse(std::env::args_os().collect()) {
        Ok(asked) => asked,
        Err(refusal) => return ExitCode::from(refusal.say()),
    };
    exit::conclude(match asked {
        Asked::Command(cli) => commands::run(cli.command),
        Asked::Config(text) => ui::out::text(&text),
    })
}
