//! Whether the process of another rank still runs.

use std::cell::OnceCell;

use uva_mem::PidFd;

/// The system's error for a process that does not exist (`ESRCH`).
const NO_SUCH_PROCESS: i32 = 3;

/// The process of another rank, opened when it is first asked for.
///
/// It is known by its number. A number that the system has given to another process meanwhile makes an ended rank look
/// alive; the group's timeout finds it then.
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
    /// Whether the process `number` has ended. This process has not.
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
                    // For lack of descriptors, say: the next look asks again.
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
