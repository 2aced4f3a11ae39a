//! This process's limits on pinning: free memory, reserved huge pages, lock limit and control groups.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::memory::bytes::ByteCount;

/// Bytes of a huge page that a copy may use.
const HUGE_PAGE: u64 = 2 << 20;

/// The capability that lifts `RLIMIT_MEMLOCK`: its bit in `CapEff` of `/proc/self/status`.
const CAP_IPC_LOCK: u32 = 14;

/// A limit on memory from a control group that holds this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupLimit {
    /// The file that defines it.
    pub file: PathBuf,
    /// Bytes allowed.
    pub limit: u64,
    /// Bytes still available under the limit: unused bytes, and file pages that can be dropped.
    pub available: u64,
}

/// The limits on pinning in this process, as the system reported them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostMemory {
    /// Bytes available without swapping (`MemAvailable`).
    pub available: u64,
    /// Total bytes of memory.
    pub total: u64,
    /// Bytes of reserved 2 MiB huge pages that are unclaimed. They are not part of `available`.
    pub huge_pages: u64,
    /// Bytes that an unprivileged process may lock (`RLIMIT_MEMLOCK`); `None` if unlimited.
    pub lock_limit: Option<u64>,
    /// Whether this process may lock more than that (`CAP_IPC_LOCK`).
    pub may_lock_any: bool,
    /// The limits of the control groups around this process, the innermost first.
    pub cgroups: Vec<CgroupLimit>,
}

impl HostMemory {
    /// Reads the limits from the system.
    ///
    /// # Errors
    /// If `/proc/meminfo` can't be read or lacks the available memory. Any other missing file counts as no limit.
    pub fn read() -> io::Result<Self> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
        Self::read_below(Path::new("/"), limit.current)
    }

    /// As [`HostMemory::read`], with the files of `/proc` and `/sys` below `root`.
    fn read_below(root: &Path, lock_limit: Option<u64>) -> io::Result<Self> {
        let file = root.join("proc/meminfo");
        let text = uva_mem::files::read_kernel_text(&file)?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = |name: &str| {
            let number =
                field(name).and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
            number.map(|kib| kib.saturating_mul(1024)).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{}: no {name}", file.display()))
            })
        };
        let (available, total) = (kib("MemAvailable")?, kib("MemTotal")?);
        let count = |name: &str| field(name).and_then(|rest| rest.trim().parse::<u64>().ok()).unwrap_or(0);
        let huge_pages = match kib("Hugepagesize") {
            Ok(HUGE_PAGE) => {
                count("HugePages_Free").saturating_sub(count("HugePages_Rsvd")).saturating_mul(HUGE_PAGE)
            }
            _ => 0,
        };
        let may_lock_any = uva_mem::files::read_kernel_text(root.join("proc/self/status"))
            .is_ok_and(|status| effective_capabilities(&status) >> CAP_IPC_LOCK & 1 == 1);
        Ok(Self { available, total, huge_pages, lock_limit, may_lock_any, cgroups: cgroup_limits(root) })
    }

    /// Bytes available under every limit: the machine's own, and those of this process's control groups.
    pub fn to_be_had(&self) -> u64 {
        self.tightest().0
    }

    /// The bytes available under every limit, and the source of the tightest one, worded for a message.
    pub fn tightest_limit(&self) -> (u64, String) {
        let (bytes, bound) = self.tightest();
        (bytes, bound.to_string())
    }

    /// The bytes available under every limit, and the tightest limit.
    fn tightest(&self) -> (u64, Bound<'_>) {
        let machine = (self.available, Bound::Machine { total: self.total });
        let cgroups = self.cgroups.iter().map(|cgroup| (cgroup.available, Bound::Cgroup(cgroup)));
        std::iter::once(machine).chain(cgroups).min_by_key(|&(available, _)| available).unwrap_or(machine)
    }
}

#[derive(Clone, Copy)]
enum Bound<'m> {
    Machine { total: u64 },
    Cgroup(&'m CgroupLimit),
}

impl fmt::Display for Bound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine { total } => write!(f, "this machine's memory of {}", ByteCount(*total)),
            Self::Cgroup(cgroup) => {
                write!(
                    f,
                    "the control group's limit of {} ({})",
                    ByteCount(cgroup.limit),
                    cgroup.file.display()
                )
            }
        }
    }
}

fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

/// The memory limits of the control groups around this process, of both versions, the innermost first.
fn cgroup_limits(root: &Path) -> Vec<CgroupLimit> {
    let Ok(groups) = uva_mem::files::read_kernel_text(root.join("proc/self/cgroup")) else {
        return Vec::new();
    };
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let version = if controllers.is_empty() {
            &V2
        } else if controllers.split(',').any(|controller| controller == "memory") {
            &V1
        } else {
            continue;
        };
        let top = root.join(version.mount);
        // Inside a container the path may be the host's and not mounted here. Then the top of the mount is this
        // process's own group. A path that leaves the mount upwards (a shared namespace) has nothing to read either.
        let inner = path.trim_start_matches('/');
        let mut folder =
            if inner.split('/').any(|part| part == "..") { top.clone() } else { top.join(inner) };
        if !folder.is_dir() {
            folder.clone_from(&top);
        }
        loop {
            limits.extend(version.limit(&folder));
            if folder == top || !folder.pop() {
                break;
            }
        }
    }
    limits
}

/// The files of one version of control groups.
struct CgroupVersion {
    mount: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Lines of `memory.stat` whose pages can be dropped: file pages of the group and its subgroups.
    droppable: [&'static str; 2],
}

const V2: CgroupVersion = CgroupVersion {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    droppable: ["inactive_file", "active_file"],
};

const V1: CgroupVersion = CgroupVersion {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    droppable: ["total_inactive_file", "total_active_file"],
};

/// Above this, version 1 means "no limit": it writes the largest multiple of a page that fits in 63 bits.
const NO_LIMIT: u64 = 1 << 62;

impl CgroupVersion {
    fn limit(&self, folder: &Path) -> Option<CgroupLimit> {
        let number =
            |name: &str| uva_mem::files::read_kernel_text(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        // "max" is not a number, and means no limit.
        let limit = number(self.limit).filter(|&limit| limit < NO_LIMIT)?;
        let used = number(self.used)?;
        let stat = uva_mem::files::read_kernel_text(folder.join("memory.stat")).unwrap_or_default();
        let droppable: u64 = stat
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(name, _)| self.droppable.contains(name))
            .filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok())
            .sum();
        let available = limit.saturating_sub(used.saturating_sub(droppable));
        Some(CgroupLimit { file: folder.join(self.limit), limit, available })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::preflight::{PinRequest, PinWay, Preflight, PreflightPolicy, preflight};

    /// A machine's files, as a folder.
    fn files(entries: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in entries {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn table(bytes: u64, way: PinWay) -> PinRequest<'static> {
        PinRequest { what: "t", bytes, way, remedies: "halve it" }
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:       65536 kB\nMemFree:         100 kB\nMemAvailable:   32768 kB\n");

    #[test]
    fn the_tightest_control_group_counts_with_its_droppable_pages() {
        let root = files(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/inner/memory.current", "5\n"),
            ("sys/fs/cgroup/outer/memory.max", "20000000\n"),
            ("sys/fs/cgroup/outer/memory.current", "15000000\n"),
            (
                "sys/fs/cgroup/outer/memory.stat",
                "anon 1\ninactive_file 3000000\nactive_file 1000000\nfile 9\n",
            ),
        ]);
        let memory = HostMemory::read_below(root.path(), Some(65536)).unwrap();
        assert_eq!((memory.available, memory.total), (32768 << 10, 65536 << 10));
        assert!(memory.may_lock_any);
        let file = root.path().join("sys/fs/cgroup/outer/memory.max");
        assert_eq!(
            memory.cgroups,
            [CgroupLimit { file: file.clone(), limit: 20_000_000, available: 9_000_000 }]
        );
        let asked = |bytes| preflight(&table(bytes, PinWay::InPlace), &memory, PreflightPolicy::Refuse);
        let error = asked(9_000_000).unwrap_err();
        assert!(error.to_string().contains(&file.display().to_string()), "{error}");
        assert!(asked(8_000_000).is_ok());
    }

    #[test]
    fn version_1_groups_are_read_and_a_host_path_falls_back_to_the_mounts_top() {
        let root = files(&[
            MEMINFO,
            ("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/docker/not-mounted-here\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "700\n"),
            (
                "sys/fs/cgroup/memory/memory.stat",
                "cache 600\ntotal_inactive_file 100\ntotal_active_file 50\n",
            ),
        ]);
        let memory = HostMemory::read_below(root.path(), None).unwrap();
        assert_eq!(memory.cgroups.len(), 1);
        assert_eq!((memory.cgroups[0].limit, memory.cgroups[0].available), (1000, 450));
        assert!(!memory.may_lock_any);
    }

    #[test]
    fn both_versions_of_control_groups_read_an_absent_limit() {
        let root = files(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/\n0::/\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/fs/cgroup/memory.current", "1\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
        ]);
        assert_eq!(HostMemory::read_below(root.path(), None).unwrap().cgroups, []);
    }

    #[test]
    fn this_machine_answers() {
        let memory = HostMemory::read().unwrap();
        assert!(memory.available > 0 && memory.available <= memory.total, "{memory:?}");
    }

    #[test]
    fn a_copy_takes_reserved_huge_pages_which_do_not_count_as_available() {
        let root = files(&[(
            "proc/meminfo",
            "MemTotal: 67108864 kB\nMemAvailable: 1048576 kB\nHugePages_Free: 5000\nHugePages_Rsvd: 100\n\
             Hugepagesize: 2048 kB\n",
        )]);
        let memory = HostMemory::read_below(root.path(), None).unwrap();
        assert_eq!(memory.huge_pages, 4900 << 21);
        let asked = |bytes, huge_pages| {
            preflight(&table(bytes, PinWay::Copy { huge_pages }), &memory, PreflightPolicy::Refuse)
        };
        assert_eq!(asked(4900 << 21, true), Ok(Preflight::default()));
        assert!(asked(4901 << 21, true).is_err());
        assert!(asked(4900 << 21, false).is_err());
    }
}
