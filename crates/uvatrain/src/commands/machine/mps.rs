//! `uvatrain mps`: a daemon of this user that keeps running, for several runs or for other programs.

use serde::Serialize;
use serde_json::{Map, Value, json};
use uva_files::escape;
use uva_launch::mps::{self, DaemonStatus, MpsError, Running, StopResult};
use uva_runtime::RuntimeError;

use crate::flags::machine::{MpsCommand, MpsCommon, MpsStartFlags};
use crate::ui::out;

/// Runs the given command.
pub fn run(command: &MpsCommand) -> anyhow::Result<()> {
    match command {
        MpsCommand::Start(flags) => start(flags),
        MpsCommand::Status(flags) => status(&flags.common),
        MpsCommand::Stop(flags) => stop(&flags.common),
    }
    .map_err(|error| match error {
        Failure::Mps(error) => RuntimeError::from(error).into(),
        Failure::Other(error) => error,
    })
}

enum Failure {
    Mps(MpsError),
    /// An error while printing.
    Other(anyhow::Error),
}

impl From<MpsError> for Failure {
    fn from(error: MpsError) -> Self {
        Self::Mps(error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

fn start(flags: &MpsStartFlags) -> Result<(), Failure> {
    let environment = flags.common.environment();
    let (running, started) = mps::start(&environment, flags.device.as_ref())?;
    let exports = exports(&running);
    if flags.common.json {
        let report = Started {
            running: true,
            started,
            pid: running.process().pid,
            environment: exports.iter().cloned().map(|(name, value)| (name, value.into())).collect(),
            unset: mps::UNSET_IN_CLIENTS,
            advice: mps::file_limit_advice(),
        };
        return Ok(out::json(&report)?);
    }
    let pid = running.process().pid;
    if started {
        out::say(&format!("started MPS daemon {pid}; `uvatrain mps stop` stops it"));
    } else {
        out::say(&format!("MPS daemon {pid} runs already"));
    }
    if let Some(advice) = mps::file_limit_advice() {
        out::say(&advice);
    }
    // For `eval`: stdout has no other output.
    let lines: String =
        exports.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value))).collect();
    let unset = mps::UNSET_IN_CLIENTS.map(|name| format!("unset {name}\n")).concat();
    Ok(out::script(&(lines + &unset))?)
}

#[derive(Serialize)]
struct Started {
    running: bool,
    /// Whether this command started the daemon. False if it already ran.
    started: bool,
    pid: u32,
    environment: Map<String, Value>,
    unset: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// The environment variables with which a program uses the daemon. Each program sets its own share.
fn exports(running: &Running) -> Vec<(String, String)> {
    let all = running.client_environment(100).into_iter();
    all.filter(|(name, _)| name != "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").collect()
}

fn status(common: &MpsCommon) -> Result<(), Failure> {
    let environment = common.environment();
    let program = mps::control_program(&environment)?;
    let status = match Running::find(&environment) {
        Ok(running) => running.status()?,
        Err(MpsError::NotRunning(reason)) => {
            let report = json!({
                "running": false,
                "state": reason.kind(),
                "reason": reason.to_string(),
                "control_program": program.display().to_string(),
            });
            let printed = if common.json { out::json(&report) } else { out::text(&format!("{reason}\n")) };
            return printed.map_err(Failure::Other);
        }
        Err(error) => return Err(error.into()),
    };
    if !common.json {
        return Ok(out::text(&text(&status))?);
    }
    #[derive(Serialize)]
    struct Report<'s> {
        running: bool,
        #[serde(flatten)]
        status: &'s DaemonStatus,
        control_program: String,
    }
    Ok(out::json(&Report { running: true, status: &status, control_program: program.display().to_string() })?)
}

fn text(status: &DaemonStatus) -> String {
    let owner = status.owner.as_ref().map_or_else(|| "an unknown user".to_owned(), ToString::to_string);
    let by = if status.started_by_uvatrain { "uvatrain mps start" } else { "something else than uvatrain" };
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "an unknown share".to_owned(), |share| format!("{share} %"))
    };
    let mut text = format!(
        "MPS daemon {} of {owner}, started by {by}\n  pipe directory  {}\n  log directory   {}\n  devices         {}\n  \
         a client gets   {} of the multiprocessors at most\n",
        status.pid,
        escape::word(&status.pipe_directory.display().to_string()),
        escape::word(&status.log_directory.display().to_string()),
        status.visible_devices.as_deref().unwrap_or("all"),
        percent(status.default_percentage),
    );
    if status.servers.is_empty() {
        text += "  no server yet: the first client starts it\n";
    }
    for server in &status.servers {
        let state = server.state.as_deref().unwrap_or("of unknown state");
        text += &format!("  server {} {state}, {} at most\n", server.pid, percent(server.percentage));
        for client in &server.clients {
            text += &format!("    client {}  {}\n", client.pid, client.command);
        }
    }
    text
}

fn stop(common: &MpsCommon) -> Result<(), Failure> {
    let environment = common.environment();
    mps::control_program(&environment)?;
    let stopped = mps::stop(&environment)?;
    if common.json {
        return Ok(out::json(&json!({ "running": false, "stopped": stopped == StopResult::Daemon }))?);
    }
    out::say(match stopped {
        StopResult::Daemon => "the MPS daemon has ended",
        StopResult::Remains => "the MPS daemon was dead already; what it had left behind is removed",
        StopResult::Nothing => "no MPS daemon runs",
    });
    Ok(())
}

/// A value quoted so that a shell takes it literally.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if value.chars().all(plain) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_reads_a_quoted_value_unchanged() {
        assert_eq!(quoted("/run/user/1000/uvatrain-mps/pipe"), "/run/user/1000/uvatrain-mps/pipe");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
