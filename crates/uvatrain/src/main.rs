//! `uvatrain`, the command line: it parses, calls the libraries, and prints.
//!
//! The way in: [`flags`] declares every option once; [`config`] reads them from the command line and from a file;
//! `main` hands them to one file of [`commands`]; those call `uva-graph` and `uva-runtime` and print through [`ui`];
//! [`exit`] turns what comes back into an exit code. No algorithm lives here.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![allow(missing_docs, reason = "a binary has no public items; what needs a word has one")]

mod commands;
mod config;
mod exit;
mod flags;
mod ui;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use config::Asked;

fn main() -> ExitCode {
    ui::log::install();
    errors_for_files_that_may_not_grow();
    let asked = match config::parse(std::env::args_os().collect()) {
        Ok(asked) => asked,
        Err(refusal) => return ExitCode::from(refusal.say()),
    };
    exit::conclude(match asked {
        Asked::Command(cli) => commands::run(cli.command),
        Asked::Config(text) => ui::out::script(&text),
    })
}

/// Beyond a limit on the size of files (`ulimit -f`) the kernel ends a process that has no handler for it, without a
/// word. With one the write fails, and its error names the file. (A handler and not a disposition to ignore, which
/// programs that this one starts would inherit.)
fn errors_for_files_that_may_not_grow() {
    let noticed = Arc::new(AtomicBool::new(false));
    // Where it cannot be had, the process ends as it would have.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noticed);
}
