//! Exit codes: the only place where errors become exit codes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | the run failed: a peer died, training diverged, the disk filled up |
//! | 2 | bad usage or bad input: an option, a file or a value has to change |
//! | 3 | the machine lacks a requested resource: a GPU, libtorch, space on the disk |
//! | 129, 130, 143 | ended by SIGHUP, by SIGINT, by SIGTERM |
//!
//! Commands return `anyhow::Result<()>`. The error decides the code: a [`CommandError`] carries its own, [`code_of`]
//! maps the libraries' public errors, and any other error is 1.

use std::fmt;
use std::io;
use std::path::Path;

use uva_bench::MeasureError;
use uva_graph::GraphError;
use uva_plan::CacheError;
use uva_rows::GatherError;
use uva_runtime::RuntimeError;
use uva_runtime::spec::Spelling;
use uva_sample::SampleError;

use crate::ui::out;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The run failed.
    Failed = 1,
    /// An option, a file or a value has to change.
    BadInput = 2,
    /// The machine lacks a requested resource.
    Lacking = 3,
    /// Ended by SIGHUP.
    HungUp = 129,
    /// Ended by SIGINT.
    Interrupted = 130,
    /// Ended by SIGTERM.
    Terminated = 143,
}

impl Code {
    /// The code for a run that this signal ended (`1` SIGHUP, `2` SIGINT, anything else SIGTERM).
    pub fn of_signal(signal: i32) -> Code {
        match signal {
            1 => Code::HungUp,
            2 => Code::Interrupted,
            _ => Code::Terminated,
        }
    }
}

/// An error of the command line itself: the problem, its remedy, and the exit code.
#[derive(Debug)]
pub struct CommandError {
    code: Code,
    message: String,
    /// The user's next step, on a line of its own.
    next: Option<String>,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

/// Bad usage or input; the message names the option, file or value and what is valid instead.
pub fn usage(message: impl Into<String>) -> CommandError {
    CommandError { code: Code::BadInput, message: message.into(), next: None }
}

/// An output that the user named could not be written: bad usage if the name is at fault, otherwise a failed run.
pub fn of_output(option: &str, path: &Path, error: io::Error) -> anyhow::Error {
    let message = format!("{option} {}: {error}", path.display());
    if uva_mem::files::is_about_the_name(&error) { usage(message).into() } else { anyhow::anyhow!(message) }
}

/// The machine lacks a requested resource; the message says which, and how to get it.
pub fn lacking(message: impl Into<String>) -> CommandError {
    CommandError { code: Code::Lacking, message: message.into(), next: None }
}

/// The run was ended by a signal and has cleaned up.
pub fn signalled(signal: i32) -> CommandError {
    let code = Code::of_signal(signal);
    let name = match code {
        Code::HungUp => "SIGHUP",
        Code::Interrupted => "SIGINT",
        _ => "SIGTERM",
    };
    CommandError { code, message: format!("stopped by {name}"), next: None }
}

/// The run was ended by a signal; `next` is the last line on stderr.
pub fn interrupted(signal: i32, message: String, next: String) -> CommandError {
    CommandError { code: Code::of_signal(signal), message, next: Some(next) }
}

/// Ends the process now, from any thread, as [`conclude`] would.
pub fn at_once(problem: &CommandError) -> ! {
    out::say(&format!("uvatrain: {problem}"));
    std::process::exit(problem.code as i32)
}

/// The exit code of an error: the first recognised error in its chain decides.
pub fn code_of(error: &anyhow::Error) -> Code {
    error.chain().find_map(known).unwrap_or(Code::Failed)
}

fn known(error: &(dyn std::error::Error + 'static)) -> Option<Code> {
    if let Some(problem) = error.downcast_ref::<CommandError>() {
        return Some(problem.code);
    }
    if let Some(graph) = error.downcast_ref::<GraphError>() {
        return Some(of_graph(graph));
    }
    if let Some(run) = error.downcast_ref::<RuntimeError>() {
        // The library has its own code for each, since roles pass these on to the launcher.
        return Some(match run.exit_code() {
            2 => Code::BadInput,
            3 => Code::Lacking,
            130 => Code::Interrupted,
            143 => Code::Terminated,
            _ => Code::Failed,
        });
    }
    if error.downcast_ref::<CacheError>().is_some_and(CacheError::is_bad_input) {
        return Some(Code::BadInput);
    }
    let gather = match error.downcast_ref::<MeasureError>() {
        Some(MeasureError::Gather(gather)) => Some(gather),
        _ => error.downcast_ref::<GatherError>(),
    };
    if matches!(gather, Some(GatherError::Threads { .. })) {
        return Some(Code::Lacking);
    }
    // Sampling fails only if options and graph do not fit each other.
    error.is::<SampleError>().then_some(Code::BadInput)
}

fn of_graph(error: &GraphError) -> Code {
    match error {
        GraphError::Lacking { .. } => Code::Lacking,
        error if error.is_bad_input() => Code::BadInput,
        _ => Code::Failed,
    }
}

/// Turns the result of a command into an exit code, and prints the error, if any, as one line on stderr.
///
/// A reader that closes our stdout (`uvatrain info DATA | head -1`) has read enough, so a broken pipe is a quiet
/// success, as with tools that SIGPIPE ends. Rust ignores SIGPIPE, so it arrives here as a write error.
pub fn conclude(result: anyhow::Result<()>) -> u8 {
    conclude_with(result, |_| String::new())
}

/// As [`conclude`], with more lines after the line of a failed run.
pub fn conclude_with(result: anyhow::Result<()>, more: impl FnOnce(&str) -> String) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            // A closed stderr cannot be helped; the exit code still reports the failure.
            let (line, code) = (line(&error), code_of(&error));
            // A refusal contains its own remedy.
            let more = if code == Code::Failed { more(&line) } else { String::new() };
            out::say(&format!("uvatrain: {line}{more}"));
            if let Some(next) = error.downcast_ref::<CommandError>().and_then(|problem| problem.next.as_ref())
            {
                out::say(next);
            }
            code as u8
        }
    }
}

/// The error and its causes in one line. Some errors quote their cause and also have it as their source: it is printed
/// once.
fn line(error: &anyhow::Error) -> String {
    error.chain().map(spelled).fold(String::new(), |said, cause| match () {
        () if said.is_empty() => cause,
        () if said.contains(&cause) => said,
        () => format!("{said}: {cause}"),
    })
}

/// The message with options as spelled on the command line.
fn spelled(error: &(dyn std::error::Error + 'static)) -> String {
    let spelling = Spelling::CommandLine;
    match error.downcast_ref::<RuntimeError>() {
        Some(run) => run.spelled(spelling),
        None => spelling.sentence(&error.to_string()),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    // Only a write of our own to stdout is an `io::Error` at the top; a role's broken pipe is inside a typed error.
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_keeps_its_code_under_context() {
        let error = anyhow::Error::new(usage("--fanouts 0")).context("reading options");
        assert_eq!(code_of(&error), Code::BadInput);
        assert_eq!(code_of(&lacking("no GPU").into()), Code::Lacking);
    }

    #[test]
    fn signals_have_the_shells_codes() {
        assert_eq!(code_of(&signalled(1).into()) as u8, 129);
        assert_eq!(code_of(&signalled(2).into()) as u8, 130);
        assert_eq!(code_of(&signalled(15).into()) as u8, 143);
    }

    #[test]
    fn what_is_unknown_is_a_failed_run() {
        assert_eq!(code_of(&anyhow::anyhow!("odd")), Code::Failed);
    }

    #[test]
    fn a_cause_is_printed_once() {
        let error = anyhow::anyhow!("no such file").context("out: cannot open: no such file");
        assert_eq!(line(&error), "out: cannot open: no such file");
        let error = anyhow::anyhow!("no such file").context("cannot open out");
        assert_eq!(line(&error), "cannot open out: no such file");
    }

    #[test]
    fn only_a_plain_broken_pipe_is_quiet() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&pipe().into()));
        assert!(!is_broken_pipe(&io::Error::from(io::ErrorKind::NotFound).into()));
        assert!(!is_broken_pipe(&usage("the producer's pipe broke").into()));
    }
}
