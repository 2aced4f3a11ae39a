//! The system's report about a process's memory.

use serde::{Deserialize, Serialize};

/// The resident set of a process, in bytes, by the backing of its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Private pages, which have no file.
    pub own: u64,
    /// Pages of mapped files: the dataset, the program, its libraries. The machine holds each of them once for all
    /// processes that map it.
    pub files: u64,
    /// Pages of shared memory, mostly slots between processes. The machine holds these once too.
    pub shared: u64,
    /// The largest total so far.
    pub peak: u64,
}

impl Resident {
    /// The memory of the process with this number; `None` if there is none, or it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        Self::in_status(&uva_mem::files::read_kernel_text(format!("/proc/{pid}/status")).ok()?)
    }

    /// The memory of this process; `None` if the system does not report it.
    pub fn of_self() -> Option<Self> {
        Self::in_status(&uva_mem::files::read_kernel_text("/proc/self/status").ok()?)
    }

    fn in_status(status: &str) -> Option<Self> {
        // A process that has ended has no such lines.
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kibibytes * 1024)
        };
        let (own, files, shared) = (bytes("RssAnon")?, bytes("RssFile")?, bytes("RssShmem")?);
        // The kernel updates the peak only occasionally.
        Some(Self { own, files, shared, peak: bytes("VmHWM")?.max(own + files + shared) })
    }

    /// The total, in bytes.
    pub fn total(&self) -> u64 {
        self.own + self.files + self.shared
    }
}

/// The memory of a run's process at the end of its work: an element of the end line's `memory`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// Its role, as messages name it: `sampler 0`, `producer`; `all roles` if they are threads of one process.
    pub process: String,
    /// Its resident set, in bytes: the sum of the next three.
    pub resident_bytes: u64,
    /// Private pages.
    pub own_bytes: u64,
    /// Pages of mapped files, which the machine holds once.
    pub file_bytes: u64,
    /// Pages of shared memory, which the machine holds once.
    pub shared_bytes: u64,
    /// Its largest resident set so far.
    pub peak_bytes: u64,
}

impl ProcessMemory {
    /// The memory of a process of this name.
    pub fn new(process: impl Into<String>, resident: Resident) -> Self {
        Self {
            process: process.into(),
            resident_bytes: resident.total(),
            own_bytes: resident.own,
            file_bytes: resident.files,
            shared_bytes: resident.shared,
            peak_bytes: resident.peak,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resident_set_is_split_by_its_backing_and_absent_without_a_process() {
        let status = "Name:\tuvatrain\nVmHWM:\t     120 kB\nVmRSS:\t     111 kB\nRssAnon:\t       1 kB\n\
                      RssFile:\t      10 kB\nRssShmem:\t     100 kB\n";
        let resident = Resident { own: 1 << 10, files: 10 << 10, shared: 100 << 10, peak: 120 << 10 };
        assert_eq!(Resident::in_status(status), Some(resident));
        assert_eq!(resident.total(), 111 << 10);
        // A process that waits to be reaped has a name, and no memory.
        assert_eq!(Resident::in_status("Name:\tuvatrain\nState:\tZ (zombie)\n"), None);
        // The largest number is never assigned to a process.
        assert_eq!(Resident::of(i32::MAX as u32), None);
    }

    #[test]
    fn what_a_process_writes_is_its_own() {
        let before = Resident::of_self().unwrap();
        let written = vec![1_u8; 64 << 20];
        let after = Resident::of_self().unwrap();
        assert!(after.own >= before.own + (60 << 20), "{before:?} {after:?}");
        assert!(after.peak >= after.own && written.len() == 64 << 20);
    }
}
