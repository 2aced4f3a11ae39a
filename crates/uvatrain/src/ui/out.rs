//! Results go to stdout, and nothing else does; lines for people go to stderr. Names and messages from outside are made
//! safe for a terminal here ([`uva_files::escape`]), and the options that libraries name between backticks are written as
//! the command line has them.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use uva_files::escape;
use uva_runtime::spec::Spelling;

/// Prints text for people.
///
/// # Errors
/// The write's error. A broken pipe ends the program without a message (see `exit::conclude`).
pub fn text(text: &str) -> anyhow::Result<()> {
    write(&escape::lines(&spelled(text)))
}

/// Prints text for a program, such as a shell or this one: unchanged, except on a terminal.
///
/// # Errors
/// As [`text`].
pub fn script(script: &str) -> anyhow::Result<()> {
    if io::stdout().is_terminal() { text(script) } else { write(script) }
}

/// Prints one JSON object on its own line, the output of `--json`.
///
/// # Errors
/// As [`text`].
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let line = serde_json::to_string(value)?;
    write(&(escape::json(&line).into_owned() + "\n"))
}

/// The text of a library with its options as flags.
pub fn spelled(text: &str) -> String {
    Spelling::CommandLine.sentence(text)
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Into::into)
}

/// Prints a line for the user on stderr. A line end in it, such as that of a file's name, is escaped. A closed stderr
/// is ignored.
///
/// The line is one write: the processes of a run share stderr, which is unbuffered, and so no other process writes
/// between a line and its end.
pub fn say(line: &str) {
    let _ = io::stderr().lock().write_all(format!("{}\n", escape::word(&spelled(line))).as_bytes());
}

/// Prints text of several lines, likewise.
pub fn say_lines(text: &str) {
    let _ = io::stderr().lock().write_all(format!("{}\n", escape::lines(&spelled(text))).as_bytes());
}
