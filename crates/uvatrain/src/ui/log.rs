//! The program's own trace, off unless `UVATRAIN_LOG` asks for it.

use anstream::{AutoStream, ColorChoice};
use tracing_subscriber::EnvFilter;

/// The variable that turns it on: `debug`, or `uva_runtime=trace`, as `tracing-subscriber` reads it.
pub const VARIABLE: &str = "UVATRAIN_LOG";

/// Sends traces to stderr at the level of `UVATRAIN_LOG`; warnings only where it is not set. They are coloured where what
/// clap says is: on a terminal, unless `NO_COLOR`, `CLICOLOR` or `TERM` say otherwise, and where `CLICOLOR_FORCE` does.
pub fn install() {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("warn"));
    let coloured = AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(coloured)
        // It would tell of a stderr that is closed on that very stderr, and panic.
        .log_internal_errors(false);
    // A second call would fail, and changes nothing.
    let _ = log.try_init();
}
