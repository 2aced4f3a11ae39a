//! Processes that help a launcher and are not stages of a run.

use std::os::fd::RawFd;

use super::planner;
use super::role_process::{inherited, report};
use crate::launcher::process::janitor;
use crate::launcher::wire::messages::{Helper, Report};
use uva_runtime::machine;

/// Runs a helper in this process, which a launcher started for it, and returns its exit code. All messages go to the
/// launcher.
pub fn run(helper: Helper, channel: RawFd) -> i32 {
    let channel = match inherited(helper.name(), channel) {
        Ok(channel) => channel,
        Err(code) => return code,
    };
    match helper {
        Helper::Janitor => i32::from(janitor::run(&channel).is_err()),
        Helper::Planner => match machine::start_threads().and_then(|()| planner::run(&channel)) {
            Ok((found, regions)) => report(&channel, &Report::Done(found), &regions),
            Err(error) => report(&channel, &Report::failed(&error), &[]),
        },
    }
}
