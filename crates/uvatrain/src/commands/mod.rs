//! The commands, one file each: a command takes the parsed options, calls the libraries, and prints.

mod bench;
mod data;
mod machine;
mod report;
mod training;

use uva_launch::launcher::{Helper, Role};

use self::data::{export, generate, import, info, order, partition, propagate};
pub use self::machine::shell::shown_commands;
use self::machine::{doctor, mps, probe, role, shell, top};
use self::training::{evaluate, plan, predict, run, train};
use crate::flags::{BenchCommand, Command};
use crate::models::Models;

/// The machine's resources that a command needs, checked before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needs {
    /// The command starts or searches processes.
    proc: bool,
    /// The command processes whole arrays in parallel.
    threads: bool,
}

fn needs(command: &Command) -> Needs {
    let (proc, threads) = match command {
        Command::Train(_) | Command::Run(_) | Command::Plan(_) => (true, true),
        Command::Predict(_) | Command::Evaluate(_) => (true, true),
        Command::Bench(BenchCommand::Pipeline(_) | BenchCommand::Cache(_) | BenchCommand::Pcie(_)) => {
            (true, true)
        }
        Command::Generate(_) | Command::Import(_) | Command::Export(_) | Command::Info(_) => (false, true),
        Command::Propagate(_) | Command::Order(_) | Command::Partition(_) => (false, true),
        // A bench opens datasets of any origin.
        Command::Bench(_) => (false, true),
        Command::Mps(_) => (true, false),
        // A role checks for itself.
        Command::Top(_)
        | Command::Report(_)
        | Command::Doctor(_)
        | Command::Completions(_)
        | Command::Man(_) => (false, false),
        Command::Sampler(_)
        | Command::Producer(_)
        | Command::Worker(_)
        | Command::Consumer(_)
        | Command::Planner(_)
        | Command::Janitor(_)
        | Command::Probe(_) => (false, false),
    };
    Needs { proc, threads }
}

/// Runs the given command, in a program without models.
pub fn run(command: Command) -> anyhow::Result<()> {
    to_its_end(command, |command| match command {
        Command::Generate(flags) => generate::run(&flags),
        Command::Import(flags) => import::run(&flags),
        Command::Export(flags) => export::run(&flags),
        Command::Propagate(flags) => propagate::run(&flags),
        Command::Partition(flags) => partition::run(&flags),
        Command::Info(flags) => info::run(&flags),
        Command::Train(flags) => train::run(&flags, None),
        Command::Predict(flags) => predict::run(&flags, None),
        Command::Evaluate(flags) => evaluate::run(&flags, None),
        Command::Run(flags) => run::run(&flags),
        Command::Top(flags) => top::run(&flags),
        Command::Report(flags) => report::run(&flags),
        Command::Plan(flags) => plan::run(&flags),
        Command::Order(flags) => order::run(&flags),
        Command::Bench(command) => bench::run(&command),
        Command::Doctor(flags) => doctor::run(&flags),
        Command::Mps(command) => mps::run(&command),
        Command::Completions(flags) => shell::completions(&flags),
        Command::Man(flags) => shell::man(&flags),
        Command::Sampler(args) => role::run(Role::Sampler, &args, None),
        Command::Producer(args) => role::run(Role::Producer, &args, None),
        Command::Worker(args) => role::run(Role::Worker, &args, None),
        Command::Consumer(args) => role::run(Role::Consumer, &args, None),
        Command::Planner(args) => role::help(Helper::Planner, &args),
        Command::Janitor(args) => role::help(Helper::Janitor, &args),
        Command::Probe(args) => probe::run(&args, None),
    })
}

/// Runs the given command in the program with these models. It has its own list of commands, so that this program is
/// linked without the code of all others.
///
/// # Panics
/// If the command needs no models ([`with_models`]).
pub fn run_with_models(command: Command, models: Models) -> anyhow::Result<()> {
    to_its_end(command, |command| match command {
        Command::Train(flags) => train::run(&flags, Some(models)),
        Command::Predict(flags) => predict::run(&flags, Some(models)),
        Command::Evaluate(flags) => evaluate::run(&flags, Some(models)),
        Command::Consumer(args) => role::run(Role::Consumer, &args, Some(models)),
        Command::Probe(args) => probe::run(&args, Some(models)),
        _ => unreachable!("a command without models"),
    })
}

/// Whether a command of this name needs models.
pub fn with_models(name: &str) -> bool {
    matches!(name, "train" | "predict" | "evaluate" | "consumer" | "probe")
}

/// Checks the machine for what the command requires, runs it, and lets a signal that arrived meanwhile end the process.
fn to_its_end(command: Command, execute: impl FnOnce(Command) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let done = check(needs(&command)).and_then(|()| execute(command));
    crate::signals::ending::leave_to_signal();
    done
}

fn check(needs: Needs) -> anyhow::Result<()> {
    if needs.proc {
        uva_runtime::machine::check_proc()?;
    }
    if needs.threads {
        uva_runtime::machine::start_threads()?;
    }
    Ok(())
}
