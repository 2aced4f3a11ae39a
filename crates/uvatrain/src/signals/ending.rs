//! Signals that end a command which writes a directory: it first removes half-written files, then exits with the
//! signal's exit code.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use uva_mem::files::read_kernel_text;
use uva_runtime::machine;

use crate::exit;

/// Whether a signal is ending this process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT, SIGTERM and SIGHUP end the process with their exit codes, after it has removed half-written
/// files. For the commands that write datasets; a training run handles its signals itself.
pub fn clean_up_on_signals() -> anyhow::Result<()> {
    // Under `nohup` the run should continue without a terminal.
    let wanted =
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| signal != SIGHUP || !is_ignored(signal));
    let mut signals = Signals::new(wanted).context("cannot listen for signals")?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                ENDING.store(true, Ordering::Release);
                let _unfinished = uva_files::staging::remove_unfinished();
                exit::at_once(&exit::signalled(signal));
            }
        })
        .map_err(|error| machine::not_started("the thread that listens for signals", &error))?;
    Ok(())
}

/// Waits for the end if a signal is ending this process. A command fails once its directory is removed, but that error
/// is not the reason for the end, and must not decide the exit code.
pub fn leave_to_signal() {
    while ENDING.load(Ordering::Acquire) {
        thread::park();
    }
}

/// Whether this process was started with `signal` ignored.
fn is_ignored(signal: i32) -> bool {
    let status = read_kernel_text("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
