//! The machine itself: cores, memory, huge pages, and the kernel calls that the pipeline requires.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::process::{PidfdFlags, Resource, getpid, getrlimit, pidfd_open};

use uva_runtime::machine;

use super::check::{Check, read};
use uva_runtime::spec::ByteSize;

/// All checks of this module.
pub fn checks() -> Vec<Check> {
    vec![
        processes(),
        cpu(),
        memory(),
        memory_files(),
        process_handles(),
        transparent_huge_pages(),
        reserved_huge_pages(),
        locked_memory(),
        io_uring(),
    ]
}

fn processes() -> Check {
    if machine::has_proc() {
        Check::ok("/proc", "mounted")
    } else {
        let remedy = "mount -t proc proc /proc, or start the container or sandbox with it";
        Check::missing("/proc", "not mounted: a launcher finds its processes there", remedy)
    }
}

fn cpu() -> Check {
    let model = read("/proc/cpuinfo")
        .and_then(|text| {
            text.lines()
                .find(|l| l.starts_with("model name"))?
                .split_once(':')
                .map(|(_, v)| v.trim().to_owned())
        })
        .unwrap_or_else(|| "unknown model".to_owned());
    match std::thread::available_parallelism().map(usize::from) {
        Ok(1) => Check::note(
            "CPU",
            format!("1 core of {model}: sampler, producer and consumer take turns on it"),
            "give this machine or container more cores",
        ),
        Ok(cores) => Check::ok("CPU", format!("{cores} cores of {model}")),
        Err(error) => {
            Check::note("CPU", format!("{model}, number of cores unknown: {error}"), "set --samplers by hand")
        }
    }
}

fn memory() -> Check {
    let Some((total, available)) = read("/proc/meminfo")
        .and_then(|text| Some((meminfo(&text, "MemTotal")?, meminfo(&text, "MemAvailable")?)))
    else {
        return Check::note("memory", "/proc/meminfo cannot be read", "mount /proc");
    };
    let limit =
        read("/sys/fs/cgroup/memory.max").and_then(|text| text.parse().ok()).filter(|limit| *limit < total);
    let limited = limit
        .map_or_else(String::new, |limit: u64| format!(", limited to {} here", ByteSize::from_bytes(limit)));
    Check::ok(
        "memory",
        format!("{}, {} available{limited}", ByteSize::from_bytes(total), ByteSize::from_bytes(available)),
    )
}

/// Whether sealed memory files, in which every ring lives, can be made and sealed as the runtime does it.
fn memory_files() -> Check {
    let made =
        memfd_create("uvatrain-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).and_then(|file| {
            ftruncate(&file, 4096)?;
            fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        });
    match made {
        Ok(()) => Check::ok("shared memory", "memfd_create and seals work"),
        Err(error) => Check::missing(
            "shared memory",
            format!("memfd_create or its seals are refused: {error}"),
            "allow memfd_create and fcntl in the container's seccomp profile, or use Linux 3.17 or later",
        ),
    }
}

fn process_handles() -> Check {
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Check::ok("process handles", "pidfd_open works"),
        Err(error) => Check::missing(
            "process handles",
            format!("pidfd_open is refused, so that a dead role would not be noticed: {error}"),
            "use Linux 5.3 or later, and allow pidfd_open in the container's seccomp profile",
        ),
    }
}

fn transparent_huge_pages() -> Check {
    const NAME: &str = "huge pages (THP)";
    const SHARED: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let Some(state) = read(SHARED) else {
        return Check::note(
            NAME,
            format!("{SHARED} is not there: 4 KiB pages are used"),
            "a kernel with THP",
        );
    };
    let shared = chosen(&state).unwrap_or("unknown").to_owned();
    if matches!(shared.as_str(), "always" | "advise" | "within_size" | "force") {
        return Check::ok(NAME, format!("'{shared}' for shared memory"));
    }
    Check::note(
        NAME,
        format!("'{shared}' for shared memory: slots use 4 KiB pages, which works and is slower"),
        format!("echo advise | sudo tee {SHARED}"),
    )
}

fn reserved_huge_pages() -> Check {
    const NAME: &str = "huge pages (reserved)";
    let meminfo_text = read("/proc/meminfo").unwrap_or_default();
    let number = |key| field(&meminfo_text, key);
    match (number("HugePages_Total"), number("HugePages_Free"), number("Hugepagesize")) {
        (Some(total), Some(free), Some(kib)) if total > 0 => {
            Check::ok(NAME, format!("{free} of {total} free, {} each", ByteSize::from_bytes(kib * 1024)))
        }
        _ => Check::note(NAME, "none reserved; they are optional", "sudo sysctl vm.nr_hugepages=512"),
    }
}

fn locked_memory() -> Check {
    let limit = getrlimit(Resource::Memlock).current;
    match limit {
        None => Check::ok("locked memory", "no limit"),
        Some(bytes) => Check::note(
            "locked memory",
            format!("limited to {}; only pinning for a GPU needs more", ByteSize::from_bytes(bytes)),
            "ulimit -l unlimited (or a memlock line in /etc/security/limits.conf)",
        ),
    }
}

/// Whether io_uring, which also reads rows from disk if the file system allows it, is available.
fn io_uring() -> Check {
    match uva_disk::io_uring_refusal() {
        None => Check::ok("io_uring", "allowed, for --features disk"),
        Some(reason) => Check::note(
            "io_uring",
            format!("{reason}; --features disk reads by threads in its place"),
            "allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile, and: sudo \
             sysctl kernel.io_uring_disabled=0",
        ),
    }
}

/// A value of /proc/meminfo in bytes.
fn meminfo(text: &str, key: &str) -> Option<u64> {
    field(text, key)?.checked_mul(1024)
}

/// The number after a key of /proc/meminfo, in the file's own unit.
fn field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split(':').next() == Some(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The word in brackets of a kernel setting such as `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    text.split_once('[')?.1.split_once(']').map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_choice_is_the_word_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("nothing chosen"), None);
    }

    #[test]
    fn meminfo_keys_match_whole_words() {
        let text = "MemTotal:       1000 kB\nMem:   7 kB\nHugePages_Total:       3\n";
        assert_eq!(meminfo(text, "MemTotal"), Some(1_024_000));
        assert_eq!(field(text, "HugePages_Total"), Some(3));
        assert_eq!(meminfo(text, "MemTot"), None);
    }
}
