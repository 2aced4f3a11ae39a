//! The report of CUDA and libtorch about this machine, determined in a separate process.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uva_cuda::ProbeReport;
use uva_cuda::nvrtc::Nvrtc;
use uva_mem::spawn::Inherit;
use uva_mem::{PidFd, Signal};

use crate::RuntimeError;
use crate::machine::own_program;

/// Maximum time of a probe. In containers, a driver that has to connect to an MPS daemon was seen to hang indefinitely.
const PATIENCE: Duration = Duration::from_secs(60);

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The driver and its devices.
    #[serde(flatten)]
    pub cuda: ProbeReport,
    /// The compiler of the kernels; absent without a GPU to compile for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvrtc: Option<NvrtcReport>,
    /// The reason why libtorch cannot use a GPU; absent if it can, or without a GPU to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<String>,
}

/// NVRTC, or the reason why it is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NvrtcReport {
    /// The path where it was found.
    pub found: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The searched paths, if it was not found.
    pub missing: Option<String>,
}

impl NvrtcReport {
    fn here() -> Self {
        match Nvrtc::find(None) {
            Ok(nvrtc) => {
                let (major, minor) = nvrtc.version();
                let found = Some(nvrtc.found().to_owned());
                Self { found, version: Some(format!("{major}.{minor}")), missing: None }
            }
            Err(error) => Self { missing: Some(error.to_string()), ..Self::default() },
        }
    }
}

impl Probe {
    /// Probes in this process. `torch` loads libtorch's CUDA half; it is called only if there is a GPU for it.
    pub fn here(torch: fn() -> Result<(), String>) -> Self {
        let driver = Self::of_driver();
        let torch = if driver.is_for_torch() { torch().err() } else { None };
        let nvrtc = (!driver.cuda.devices.is_empty()).then(NvrtcReport::here);
        Self { nvrtc, torch, ..driver }
    }

    /// Whether there is a GPU that libtorch could use.
    pub fn is_for_torch(&self) -> bool {
        !self.cuda.devices.is_empty() && !self.cuda.simulator
    }

    /// Probes only the driver and its devices, in this process.
    pub fn of_driver() -> Self {
        Self { cuda: uva_cuda::probe(), nvrtc: None, torch: None }
    }

    /// Runs this program's `probe`, in an environment that differs from this one by these variables. `driver_only`
    /// omits NVRTC and libtorch.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if it cannot be started, does not end, or reports nothing.
    pub fn in_child(
        environment: &[(String, Option<String>)],
        driver_only: bool,
    ) -> Result<Self, RuntimeError> {
        Self::by(&own_program(), environment, driver_only)
    }

    /// Probes with another program that has a `probe` command.
    ///
    /// # Errors
    /// See [`Probe::in_child`].
    pub fn by(
        program: &Path,
        environment: &[(String, Option<String>)],
        driver_only: bool,
    ) -> Result<Self, RuntimeError> {
        let arguments: Vec<OsString> = driver_only.then(|| "--driver-only".into()).into_iter().collect();
        answer_of(program, &arguments, environment)
            .map_err(|what| RuntimeError::failed(format!("looking for a GPU: {what}")))
    }
}

/// Runs `probe` of a program with these arguments, and parses its output.
pub(super) fn answer_of<T: DeserializeOwned>(
    program: &Path,
    arguments: &[OsString],
    environment: &[(String, Option<String>)],
) -> Result<T, String> {
    let mut command = Command::new(program);
    command.arg("probe").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // It may hang indefinitely, so it dies with this process. The terminal's signals are for this process only.
    let inherit = Inherit { death_signal: Some(Signal::KILL), new_session: true, ..Inherit::default() };
    inherit.apply(&mut command);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let ended = PidFd::open(child.id()).and_then(|pidfd| pidfd.wait_for_end(PATIENCE));
    if !matches!(ended, Ok(true)) {
        // An error means that it has already ended.
        let _ = child.kill();
    }
    let mut text = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        // A probe prints far less than a pipe holds, so its output never blocked.
        stdout.read_to_string(&mut text).map_err(|error| error.to_string())?;
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match ended {
        Ok(true) => serde_json::from_str(&text)
            .map_err(|error| format!("`{} probe` ended with {status}: {error}", program.display())),
        Ok(false) => Err(format!("the driver did not answer within {} s", PATIENCE.as_secs())),
        Err(error) => Err(error.to_string()),
    }
}
