//! `uvatrain mps`.

use clap::{Args, Subcommand};
use uva_launch::mps::{DaemonDevice, Environment};

use crate::flags::Seconds;

/// What to do with the MPS daemon.
#[derive(Subcommand, Debug)]
pub enum MpsCommand {
    /// Start a daemon that runs until it is stopped, and print the variables to export
    Start(MpsStartFlags),
    /// Show whether a daemon runs, its owner and its clients
    Status(MpsFlags),
    /// Stop the daemon that `start` started; other daemons are not stopped
    Stop(MpsStopFlags),
}

/// The options of `uvatrain mps start`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  uvatrain mps start --device 0\n  eval \"$(uvatrain mps start 2>/dev/null)\""
)]
pub struct MpsStartFlags {
    /// Serve only this device: its number, or its name (GPU-…) [default: all devices]
    #[arg(long, value_name = "I|GPU-…", value_parser = device)]
    pub device: Option<DaemonDevice>,

    /// What all three have.
    #[command(flatten)]
    pub common: MpsCommon,
}

/// The options of `uvatrain mps status`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  uvatrain mps status --json")]
pub struct MpsFlags {
    /// What all three have.
    #[command(flatten)]
    pub common: MpsCommon,
}

/// The options of `uvatrain mps stop`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  uvatrain mps stop")]
pub struct MpsStopFlags {
    /// What all three have.
    #[command(flatten)]
    pub common: MpsCommon,
}

/// What `mps start`, `status` and `stop` have in common.
#[derive(Args, Clone, Debug)]
pub struct MpsCommon {
    /// Time-out for one answer of nvidia-cuda-mps-control: 10s, 5m; a number alone is seconds
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        value_parser = Seconds::within(Seconds::new(1), Seconds::new(600))
    )]
    pub timeout: Seconds,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl MpsCommon {
    /// The environment of this process, with the requested time-out.
    pub fn environment(&self) -> Environment {
        Environment { timeout: self.timeout.duration(), ..Environment::of_process() }
    }
}

fn device(text: &str) -> Result<DaemonDevice, String> {
    match text.parse() {
        Ok(ordinal) => Ok(DaemonDevice::Ordinal(ordinal)),
        Err(_) if text.starts_with("GPU-") || text.starts_with("MIG-") => {
            Ok(DaemonDevice::Uuid(text.to_owned()))
        }
        Err(_) => {
            Err("expected a device number, or a name that begins with GPU- or MIG- (nvidia-smi -L)"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_number_or_a_name() {
        assert_eq!(device("3"), Ok(DaemonDevice::Ordinal(3)));
        assert_eq!(device("GPU-0e19"), Ok(DaemonDevice::Uuid("GPU-0e19".to_owned())));
        for wrong in ["", "-1", "cuda:0", "0,1"] {
            assert!(device(wrong).is_err(), "{wrong}");
        }
    }
}
