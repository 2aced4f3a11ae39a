//! The program's own trace, off unless `UVATRAIN_LOG` asks for it.

use tracing_subscriber::EnvFilter;

/// The variable that turns it on: `debug`, or `uva_runtime=trace`, as `tracing-subscriber` reads it.
pub const VARIABLE: &str = "UVATRAIN_LOG";

/// Sends traces to stderr at the level of `UVATRAIN_LOG`; warnings only where it is not set.
pub fn install() {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("warn"));
    // A second call would fail, and changes nothing.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}
