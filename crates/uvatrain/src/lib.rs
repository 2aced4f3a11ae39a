//! The command line: it parses, calls the libraries, and prints. Two programs are made from it: `uvatrain`, and
//! `uvatrain-consumer`, which adds the built-in models and libtorch ([`Models`]).
//!
//! `flags` declares every option once; `config` reads options from the command line and from a file; a file in
//! `commands` calls `uva-graph` and `uva-runtime` and prints through `ui`; `runs` has code shared by commands that
//! start runs, and `signals` ends these; `exit` turns errors into exit codes; `memory` prints how to use less memory.
//!
//! This crate must not depend on libtorch, and contains no algorithm.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod commands;
mod config;
mod exit;
mod flags;
mod memory;
mod models;
mod runs;
mod signals;
mod ui;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use commands::shown_commands;
use config::ConfigRequest;
use flags::Command;
pub use models::Models;

/// The program `uvatrain`: runs the command line.
pub fn program() -> ExitCode {
    ExitCode::from(run(commands::run))
}

/// The program `uvatrain-consumer`: the role that trains, its probe, `train` with all roles as threads, and commands of
/// trained models.
///
/// Destructors of libtorch take 0.2 s at a process's end, after 0.35 s for loading it, to free what the end frees
/// anyway. They are skipped, except if a GPU's driver is loaded: it ends its own work in such a destructor.
pub fn consumer_program(models: Models) -> ExitCode {
    let code = match std::env::args_os().nth(1).as_deref().and_then(|word| word.to_str()) {
        Some(name) if commands::with_models(name) => {
            run(|command| commands::run_with_models(command, models))
        }
        Some("--version") => exit::conclude(ui::out::script(&format!("{}\n", runs::trainer::identity()))),
        _ => {
            ui::out::say("uvatrain-consumer: this program is started by `uvatrain train`, not by hand");
            exit::Code::BadInput as u8
        }
    };
    if !uva_cuda::Driver::is_loaded() {
        uva_mem::end_at_once(code);
    }
    ExitCode::from(code)
}

fn run(execute: impl FnOnce(Command) -> anyhow::Result<()>) -> u8 {
    ui::log::install();
    errors_for_files_that_may_not_grow();
    // If it is refused, a read past the end of a truncated file ends the process by SIGBUS, without the file's name.
    let _ = uva_mem::end_with_the_files_name();
    let asked = match config::parse(std::env::args_os().collect()) {
        Ok(asked) => asked,
        Err(refusal) => return refusal.say(),
    };
    match asked {
        ConfigRequest::Command(cli) => {
            let remedy = commands::needs(&cli.command).remedy;
            memory::end_with_a_line(matches!(cli.command, Command::Role(_)), remedy);
            exit::conclude_with(execute(cli.command), |line| memory::explained(line, remedy))
        }
        ConfigRequest::Config(text) => exit::conclude(ui::out::script(&text)),
    }
}

/// Beyond the file size limit (`ulimit -f`) the kernel silently ends a process that has no handler for the signal. With
/// a handler the write fails, and its error names the file. (Child processes would inherit an ignored signal.)
fn errors_for_files_that_may_not_grow() {
    let noticed = Arc::new(AtomicBool::new(false));
    // If registration fails, the process ends as it would have.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noticed);
}
