//! One file a command: it takes the parsed options, calls the libraries, and prints.

mod bench;
mod doctor;
mod ending;
mod export;
mod generate;
mod import;
mod info;
mod mps;
mod pipeline;
mod plan;
pub mod probe;
mod report;
pub mod role;
mod run;
mod shell;
mod top;
mod train;
mod written;

use uva_runtime::launcher::Role;

use self::ending::clean_up_on_signals;
use crate::flags::Command;

/// Runs the command that was asked for.
pub fn run(command: Command) -> anyhow::Result<()> {
    let done = run_to_its_end(command);
    ending::leave_to_signal();
    done
}

fn run_to_its_end(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Generate(flags) => generate::run(&flags),
        Command::Import(flags) => import::run(&flags),
        Command::Export(flags) => export::run(&flags),
        Command::Info(flags) => info::run(&flags),
        Command::Train(flags) => train::run(&flags),
        Command::Run(flags) => run::run(&flags),
        Command::Top(flags) => top::run(&flags),
        Command::Report(flags) => report::run(&flags),
        Command::Plan(flags) => plan::run(&flags),
        Command::Bench(command) => bench::run(&command),
        Command::Doctor(flags) => doctor::run(&flags),
        Command::Mps(command) => mps::run(&command),
        Command::Completions(flags) => shell::completions(&flags),
        Command::Man(flags) => shell::man(&flags),
        Command::Sampler(args) => role::run(Role::Sampler, &args),
        Command::Producer(args) => role::run(Role::Producer, &args),
        Command::Consumer(args) => role::run(Role::Consumer, &args),
        Command::Planner(args) => role::run(Role::Planner, &args),
        Command::Janitor(args) => role::run(Role::Janitor, &args),
        Command::Probe(args) => probe::run(&args),
    }
}
