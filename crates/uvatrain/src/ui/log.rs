//! The program's own trace on stderr: warnings, and all that `UVATRAIN_LOG` or `RUST_LOG` enables.
//!
//! Every process of a run inherits the variables and has its own trace. So each line names its origin: the role given
//! to [`name_process`], or the thread where roles are threads.

use std::fmt;
use std::sync::OnceLock;

use anstream::{AutoStream, ColorChoice};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use uva_files::escape;

use super::out;

/// The variables that select the output, in `tracing-subscriber`'s directives: `debug`, or `uva_runtime=trace`. The
/// first one set takes precedence.
const FILTERS: [&str; 2] = ["UVATRAIN_LOG", "RUST_LOG"];
/// The variable that selects the format: `text` or `json`.
const FORMAT: &str = "UVATRAIN_LOG_FORMAT";
/// The default filter.
const USUAL: Level = Level::WARN;

/// The name of this process.
static NAME: OnceLock<String> = OnceLock::new();

/// Sets the role that the lines of this process are labelled with.
pub fn name_process(name: impl Into<String>) {
    // A process has only one role.
    let _ = NAME.set(name.into());
}

/// Sends traces to stderr. They are coloured under the same conditions as clap's output: on a terminal, unless
/// `NO_COLOR`, `CLICOLOR` or `TERM` say otherwise, or if `CLICOLOR_FORCE` says so. An invalid variable is reported and
/// ignored.
pub fn install() {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (json, complaint) = match variable(FORMAT).as_deref() {
        None | Some("text") => (false, None),
        Some("json") => (true, None),
        Some(other) => (false, Some(format!("{FORMAT}={other}: it is text or json; taken as text"))),
    };
    let asked = FILTERS.into_iter().find_map(|name| variable(name).map(|value| (name, value)));
    let usual = || Targets::new().with_default(USUAL);
    let (filter, misread) = match asked {
        None => (usual(), None),
        // Levels by target: filters by spans and fields bring regular expressions, and there are no spans here.
        Some((name, value)) => match value.parse() {
            Ok(filter) => (filter, None),
            Err(error) => {
                let example = "write a level, as debug, or uva_runtime=trace; warnings are shown";
                (usual(), Some(format!("{name}={value}: {error}: {example}")))
            }
        },
    };
    let coloured = !json && AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(coloured)
        // It would report a closed stderr on that same stderr, and panic.
        .log_internal_errors(false)
        .event_format(Line { json })
        .with_filter(filter);
    // A second call fails without effect.
    let _ = tracing_subscriber::registry().with(lines).try_init();
    // For a role, the process that started it has reported the variable.
    if !is_role() {
        complaint.iter().chain(&misread).for_each(|line| out::say(&format!("uvatrain: {line}")));
    }
}

/// Whether a launcher has started this process. Called before the command line is parsed.
fn is_role() -> bool {
    std::env::args_os().skip(2).any(|word| word.to_str().is_some_and(|word| word.starts_with("--channel=")))
}

/// The label of this thread's lines. The threads of roles have names of this crate.
fn speaker() -> String {
    let thread = std::thread::current();
    match thread.name().and_then(|name| name.strip_prefix("uva-")) {
        Some(role) => role.to_owned(),
        None => NAME.get().map_or("uvatrain", String::as_str).to_owned(),
    }
}

/// The format of an event's line.
struct Line {
    json: bool,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        if self.json {
            return writeln!(writer, "{}", escape::json(&object(event, level, target).to_string()));
        }
        // In a separate string, so that colour codes in them are not taken for those of this formatter.
        let mut fields = String::new();
        context.format_fields(Writer::new(&mut fields), event)?;
        SystemTime.format_time(&mut writer)?;
        if writer.has_ansi_escapes() {
            let colour = match level {
                Level::ERROR => 31,
                Level::WARN => 33,
                Level::INFO => 32,
                Level::DEBUG => 34,
                Level::TRACE => 35,
            };
            write!(writer, " \x1b[{colour}m{level:>5}\x1b[0m {} \x1b[2m{target}:\x1b[0m ", speaker())?;
        } else {
            write!(writer, " {level:>5} {} {target}: ", speaker())?;
        }
        writeln!(writer, "{}", escape::word(&fields))
    }
}

/// One JSON object: `timestamp`, `level`, `role`, `process` (its number), `target`, `message`, and the event's own
/// fields.
fn object(event: &Event<'_>, level: Level, target: &str) -> Value {
    let mut time = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let mut fields = Fields(Map::new());
    for (name, value) in [
        ("timestamp", time.into()),
        ("level", level.as_str().to_lowercase().into()),
        ("role", speaker().into()),
        ("process", std::process::id().into()),
        ("target", target.into()),
    ] {
        fields.0.insert(name.to_owned(), value);
    }
    event.record(&mut fields);
    Value::Object(fields.0)
}

/// An event's fields in the types that JSON has.
struct Fields(Map<String, Value>);

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}
