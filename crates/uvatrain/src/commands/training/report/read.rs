//! Reads a metrics file line by line. Errors name file and line.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;
use uva_mem::files::open_regular;
use uva_runtime::telemetry::metrics::Event;

use super::run::Run;
use crate::exit::{self, CommandError};

/// Longer than any line of metrics. The limit ends the reading of a file without line ends.
const LONGEST_LINE: u64 = 4 << 20;
const EVENTS: [&str; 5] = ["start", "in_force", "batch", "epoch", "end"];
const WHAT_DOES: &str =
    "expected files written by `uvatrain train --metrics FILE` or `uvatrain run --metrics FILE`";

/// The run that this file records, in memory that does not grow with it. A truncated last line is noted.
///
/// # Errors
/// Bad input that names file and line: not a metrics file, or a damaged one.
pub fn run(path: &Path) -> anyhow::Result<Run> {
    let unreadable = |error: std::io::Error| exit::usage(format!("{}: {error}: {WHAT_DOES}", path.display()));
    let file = open_regular(path).map_err(unreadable)?;
    of(BufReader::with_capacity(1 << 18, file), path)
}

fn of(mut reader: impl BufRead, path: &Path) -> anyhow::Result<Run> {
    let mut run: Option<Run> = None;
    let mut bytes = Vec::new();
    for number in 1.. {
        let fault =
            |what: &str| -> CommandError { exit::usage(format!("{}:{number}: {what}", path.display())) };
        bytes.clear();
        reader
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| fault(&error.to_string()))?;
        if bytes.is_empty() {
            break;
        }
        let whole = bytes.ends_with(b"\n");
        if !whole && bytes.len() as u64 == LONGEST_LINE {
            return Err(fault(&format!(
                "invalid metrics line of more than {LONGEST_LINE} bytes: {WHAT_DOES}"
            ))
            .into());
        }
        let event = match (serde_json::from_slice::<Event>(&bytes), &mut run) {
            (Ok(event), _) => event,
            // A line that is still being written, or that a killed run did not finish.
            (Err(_), Some(run)) if !whole => {
                run.cut = Some(number);
                break;
            }
            (Err(_), Some(run)) if is_another_event(&bytes) => {
                run.unknown += 1;
                continue;
            }
            (Err(error), Some(_)) => {
                return Err(fault(&format!(
                    "invalid metrics line ({error}): correct or remove the line, or run again"
                ))
                .into());
            }
            (Err(_), None) if !whole && bytes.starts_with(br#"{"event":"start""#) => {
                return Err(fault(
                    "the first line, which describes the run, is incomplete: wait until the run has begun, or run again",
                )
                .into());
            }
            (Err(error), None) => {
                return Err(fault(&format!("invalid metrics line ({error}): {WHAT_DOES}")).into());
            }
        };
        match (&mut run, event) {
            (None, Event::Start(start)) => run = Some(Run::new(path, start).map_err(|what| fault(&what))?),
            (None, _) => {
                return Err(fault(
                    "metrics begin with an event 'start', and the first line is another: the \
                                  beginning of the file is missing",
                )
                .into());
            }
            (Some(run), event) => run.take(event).map_err(|what| fault(&what))?,
        }
    }
    match run {
        Some(run) => Ok(run),
        None => Err(exit::usage(format!(
            "{}: it is empty: no run has begun to write to it, or {WHAT_DOES}",
            path.display()
        ))
        .into()),
    }
}

/// Whether the line is an event that this version does not recognise.
fn is_another_event(line: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(line).unwrap_or_default();
    value["event"].as_str().is_some_and(|event| !EVENTS.contains(&event))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#"{"event":"start","version":"9","dataset":{},"options":{},"in_force":{}}"#;
    const EPOCH: &str = r#"{"event":"epoch","epoch":0,"train_loss":1,"train_accuracy":0.5,"seconds":1}"#;

    fn told(text: &str) -> Result<Run, String> {
        of(text.as_bytes(), Path::new("f")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_last_line_that_is_cut_is_noted_and_one_in_the_middle_is_an_error() {
        assert_eq!(told(&format!("{START}\n{EPOCH}\n")).unwrap().cut, None);
        // Complete except for its line end.
        assert_eq!(told(&format!("{START}\n{EPOCH}")).unwrap().cut, None);
        assert_eq!(told(&format!("{START}\n{EPOCH}\n{}", &EPOCH[..30])).unwrap().cut, Some(3));
        let error = told(&format!("{START}\n{}\n{EPOCH}\n", &EPOCH[..30])).unwrap_err();
        assert!(error.starts_with("f:2: invalid metrics line"), "{error}");
        let error = told(&START[..40]).unwrap_err();
        assert!(error.starts_with("f:1: the first line, which"), "{error}");
    }

    #[test]
    fn what_is_not_a_metrics_file_is_refused_with_its_line() {
        for (text, part) in [
            ("", "f: it is empty"),
            ("hello\n", "f:1: invalid metrics line"),
            ("\n", "f:1: invalid metrics line"),
            ("{\"event\":\"start\"}\n", "f:1: invalid metrics line (missing field"),
            ("{\"event\":\"click\",\"at\":1}\n", "f:1: invalid metrics line (unknown variant"),
            (EPOCH, "f:1: metrics begin with an event 'start'"),
        ] {
            let error = told(text).unwrap_err();
            assert!(error.starts_with(part), "{text:?}: {error}");
        }
        let endless = "x".repeat(LONGEST_LINE as usize + 7);
        assert!(told(&endless).unwrap_err().contains("more than 4194304 bytes"));
    }

    #[test]
    fn events_of_a_later_version_are_passed_over_and_counted() {
        let run = told(&format!("{START}\n{{\"event\":\"weather\"}}\n{EPOCH}\n")).unwrap();
        assert_eq!((run.unknown, run.cut), (1, None));
        let error = told(&format!("{START}\n{{\"event\":\"epoch\"}}\n")).unwrap_err();
        assert!(error.contains("f:2:") && error.contains("missing field"), "{error}");
    }
}
