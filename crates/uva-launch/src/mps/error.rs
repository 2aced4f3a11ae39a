//! Reasons why MPS is not available.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::process::ProcessOwner;
use uva_runtime::RuntimeError;

/// The reason why MPS is not available, or does not fulfil the request.
#[derive(Debug, thiserror::Error)]
pub enum MpsError {
    /// `nvidia-cuda-mps-control` is not in PATH.
    #[error(
        "nvidia-cuda-mps-control is not in PATH. It comes with the NVIDIA driver: \
         sudo apt install nvidia-compute-utils-580 (Ubuntu; the number is the driver's), \
         sudo dnf install nvidia-driver-cuda (Fedora, RHEL); a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    )]
    NoControlProgram,
    /// There is no daemon to use.
    #[error("{0}")]
    NotRunning(#[from] NotRunning),
    /// The control program did not finish in time; it was ended, the daemon was not.
    #[error("nvidia-cuda-mps-control did not answer '{command}' within {} s ({pipe_directory})", .limit.as_secs_f64())]
    Silent {
        /// The query.
        command: String,
        /// The pipe directory of the daemon.
        pipe_directory: String,
        /// The time-out.
        limit: Duration,
    },
    /// The control program failed.
    #[error("nvidia-cuda-mps-control refused '{command}': {said}")]
    Refused {
        /// The query.
        command: String,
        /// Its message, or its exit status.
        said: String,
    },
    /// The daemon did not come up.
    #[error("the MPS daemon did not start: {0}")]
    DidNotStart(String),
    /// The daemon was not started by `uvatrain mps start`, so this program must not stop it.
    #[error(
        "the MPS daemon {pid} in {directory} was not started by uvatrain and is not stopped; \
         to stop it: echo quit | CUDA_MPS_PIPE_DIRECTORY={directory} nvidia-cuda-mps-control"
    )]
    NotOurs {
        /// Its pipe directory.
        directory: String,
        /// Its process.
        pid: u32,
    },
    /// The daemon's sockets cannot be created there.
    #[error("{}: too long for a pipe directory, whose path is limited to {limit} bytes; set TMPDIR to a shorter path", .path.display())]
    PathTooLong {
        /// The directory.
        path: PathBuf,
        /// The maximum length in bytes.
        limit: usize,
    },
    /// A share that leaves nothing to one of the two.
    #[error("`mps_percentage={0}`: expected 1 to 99 per cent for the producer; the consumer gets the rest")]
    Percentage(u32),
    /// The running daemon does not serve the device.
    #[error(
        "the running MPS daemon does not serve device {asked} (the daemon has CUDA_VISIBLE_DEVICES={visible})"
    )]
    DeviceNotServed {
        /// The requested device.
        asked: u32,
        /// The daemon's list.
        visible: String,
    },
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The attempted action, with the path or process.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// The reason why a pipe directory has no usable daemon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRunning {
    /// The directory has no daemon.
    #[error("no MPS daemon runs: {} has no files of a daemon", .directory.display())]
    Nothing {
        /// The examined pipe directory.
        directory: PathBuf,
    },
    /// The directory has a daemon's files without its pid file (a daemon that ended properly leaves its socket), or
    /// with an unreadable one.
    #[error("{}: a stale pipe directory of an MPS daemon that has ended ({why}); remove the directory: rm -r {}",
            .directory.display(), .directory.display())]
    Stale {
        /// The pipe directory.
        directory: PathBuf,
        /// The evidence.
        why: &'static str,
    },
    /// The process in the pid file has ended, or is another program now.
    #[error("the MPS daemon {pid} of {} has ended; remove its directory: rm -r {}",
            .directory.display(), .directory.display())]
    Dead {
        /// The pipe directory.
        directory: PathBuf,
        /// The process that the pid file names.
        pid: u32,
    },
    /// The daemon, or its directory, belongs to another user.
    #[error(
        "the MPS daemon in {} belongs to {owner}: daemon and clients must have the same user. \
         Set CUDA_MPS_PIPE_DIRECTORY to a directory of your own, or ask its owner to stop it", .directory.display()
    )]
    Foreign {
        /// The pipe directory.
        directory: PathBuf,
        /// Their owner.
        owner: ProcessOwner,
    },
}

impl NotRunning {
    /// A word for the reason that programs can compare.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Nothing { .. } => "nothing",
            Self::Stale { .. } => "stale",
            Self::Dead { .. } => "dead",
            Self::Foreign { .. } => "foreign",
        }
    }
}

impl MpsError {
    pub(super) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |source| Self::System { doing, source }
    }
}

impl From<MpsError> for RuntimeError {
    fn from(error: MpsError) -> Self {
        let said = format!("CUDA MPS: {error}");
        match error {
            MpsError::NoControlProgram
            | MpsError::NotRunning(_)
            | MpsError::Silent { .. }
            | MpsError::Refused { .. }
            | MpsError::DidNotStart(_) => Self::missing(said),
            MpsError::NotOurs { .. } | MpsError::PathTooLong { .. } | MpsError::DeviceNotServed { .. } => {
                Self::usage(said)
            }
            MpsError::Percentage(_) => Self::usage(error.to_string()),
            MpsError::System { .. } => Self::failed(said),
        }
    }
}
