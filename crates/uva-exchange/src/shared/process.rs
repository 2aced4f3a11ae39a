//! Liveness of the process of another rank.

use std::cell::OnceCell;

use uva_mem::PidFd;

/// The system's error for a process that does not exist (`ESRCH`).
const NO_SUCH_PROCESS: i32 = 3;

/// The process of another rank, opened on first use.
///
/// It is identified by its number. If the system has reused the number for another process, an ended rank looks alive;
/// the group's timeout then detects it.
#[derive(Debug, Default)]
pub(super) struct Process {
    handle: OnceCell<Handle>,
}

#[derive(Debug)]
enum Handle {
    Open(PidFd),
    Ended,
}

impl Process {
    /// Whether the process `number` has ended. The calling process has not.
    pub fn has_ended(&self, number: u32) -> bool {
        if number == std::process::id() {
            return false;
        }
        let opened = match self.handle.get() {
            Some(handle) => handle,
            None => {
                let handle = match PidFd::open(number) {
                    Ok(handle) => Handle::Open(handle),
                    Err(error) if error.raw_os_error() == Some(NO_SUCH_PROCESS) => Handle::Ended,
                    // For example for lack of descriptors: the next check tries again.
                    Err(_) => return false,
                };
                self.handle.get_or_init(|| handle)
            }
        };
        match opened {
            Handle::Open(handle) => handle.is_alive().is_ok_and(|alive| !alive),
            Handle::Ended => true,
        }
    }
}
