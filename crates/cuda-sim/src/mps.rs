//! Whether this process is a client of the stand-in MPS daemon. Nothing is shared through it: only what a client can
//! see of itself is there.

use std::path::Path;

/// The percentage of the multiprocessors that this process may use, where it is a client; else none.
pub fn percentage() -> Option<u32> {
    let folder = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY")?;
    if !daemon_lives(Path::new(&folder)) {
        // As the driver does: silently no client.
        return None;
    }
    let asked = std::env::var("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").ok();
    // The driver takes "12.5" too, and what is no number from 1 to 100 as no limit.
    let percentage =
        asked.and_then(|text| text.trim().parse::<f64>().ok()).filter(|p| (1.0..=100.0).contains(p));
    Some(percentage.map_or(100, |p| p as u32))
}

fn daemon_lives(folder: &Path) -> bool {
    if !folder.join("control").exists() {
        return false;
    }
    let Ok(pid) = std::fs::read_to_string(folder.join("nvidia-cuda-mps-control.pid")) else { return false };
    let Ok(pid) = pid.trim().parse::<u32>() else { return false };
    // A zombie is a daemon that has ended.
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name, which may hold any character and ends with the last closing bracket.
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
}
