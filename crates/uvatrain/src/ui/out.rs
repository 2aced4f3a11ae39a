//! Results on stdout, where nothing else is ever written, and lines for people on stderr.

use std::io::{self, Write};

use serde::Serialize;

/// Prints text as it stands.
///
/// # Errors
/// The write's error; a broken pipe among them is a quiet end (see `exit::conclude`).
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Into::into)
}

/// Prints one JSON object on a line of its own: what `--json` promises.
///
/// # Errors
/// As [`text`].
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    text(&(serde_json::to_string(value)? + "\n"))
}

/// Says a line to the person, on stderr. Nothing can be done about a stderr that is closed.
///
/// It is one write: a run's processes share stderr, which keeps nothing back, and no line of another's gets between a
/// line and its end.
pub fn say(line: &str) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}
