//! Whether a table can be pinned here, asked before minutes are spent on trying.
//!
//! Pinned pages must all be in memory at once and can't be reclaimed. That a table doesn't fit is certain only where it
//! is larger than the machine's whole memory, or a copy of it larger than a control group may have. What is left at the
//! moment is no more than a sign: a guest whose memory grows says that it has little, and caches that others hold may
//! go. So a shortage is a warning unless [`PreflightPolicy`] says otherwise.
//!
//! `RLIMIT_MEMLOCK` is another matter. NVIDIA's kernel driver takes the pages with `get_user_pages`, which doesn't count
//! against it, so most machines pin hundreds of gigabytes under a limit of 8 MiB. A low limit is therefore a
//! [doubt](Preflight::doubts), told when a registration is refused, and no refusal.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::memory::bytes::Bytes;
use crate::memory::host_memory::HostMemory;

/// Bytes that are left to everything else, at most: less for small tables, of which nobody needs to be afraid.
const RESERVE: u64 = 512 << 20;

/// What the pages are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinWay {
    /// The pages of a mapping are pinned where they are. For a mapped file they're the file's cached pages, which count
    /// as available until they're pinned.
    InPlace,
    /// The bytes are copied into new memory, which is pinned. The file's cached pages are dropped as memory is needed.
    Copy {
        /// Whether the copy takes huge pages that were reserved beforehand, where there are enough of them.
        huge_pages: bool,
    },
}

/// What is done where memory seems too short for a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreflightPolicy {
    /// It is said, and tried all the same, unless it is certain to fail.
    #[default]
    Warn,
    /// It is refused.
    Refuse,
    /// Nobody looks.
    Off,
}

/// A preflight that refused nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preflight {
    /// What is short, and what may come of it, in words.
    pub warning: Option<String>,
    /// Limits that may stand in the way on some system, in words: worth telling if a registration is refused.
    pub doubts: Vec<String>,
}

/// A table needs more memory than can be pinned here, or seems to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PreflightError {
    /// What was to be pinned.
    pub what: String,
    /// How.
    pub way: PinWay,
    /// Bytes it needs, with what is left to everything else.
    pub need: u64,
    /// Bytes there are.
    pub available: u64,
    /// What sets that limit.
    pub limit: String,
    /// Whether it can't be had whatever others give back.
    pub certain: bool,
}

impl fmt::Display for PreflightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, way, need, available, limit, certain } = self;
        let how = match way {
            PinWay::InPlace => "pinning it",
            PinWay::Copy { .. } => "pinning a copy of it, since the mapping itself can't be pinned,",
        };
        let (fit, leaves) = if *certain { ("doesn't", "is") } else { ("may not", "leaves") };
        write!(
            f,
            "{what} {fit} fit into the memory that can be pinned: {how} needs {}, and {limit} {leaves} {}; \
             halve the table with `uvatrain import --feat-dtype f16`, keep the rows that are read most on the GPU with \
             `--gpu-cache`, gather on the CPU with `--gather cpu`, or free memory or raise that limit",
            Bytes(*need),
            Bytes(*available)
        )
    }
}

/// Compares what pinning `bytes` bytes needs with what `memory` has.
///
/// # Errors
/// [`PreflightError`] unless `policy` is [`PreflightPolicy::Off`], when the table is larger than the machine's memory or,
/// for a copy, than a control group's limit. With [`PreflightPolicy::Refuse`] also when the machine or a control group
/// leaves less than the table and a reserve of a sixteenth of it, 512 MiB at most.
pub fn preflight(
    what: &str,
    bytes: u64,
    way: PinWay,
    memory: &HostMemory,
    policy: PreflightPolicy,
) -> Result<Preflight, PreflightError> {
    let warning = match shortage(what, bytes, way, memory) {
        Some(error)
            if policy == PreflightPolicy::Refuse || (error.certain && policy == PreflightPolicy::Warn) =>
        {
            return Err(error);
        }
        Some(error) if policy == PreflightPolicy::Warn => Some(format!(
            "{error}. It is tried all the same, and the system may end processes for want of memory; `--preflight refuse` \
             makes this an error, `--preflight off` is silent"
        )),
        _ => None,
    };
    let mut doubts = Vec::new();
    if let Some(limit) = memory.lock_limit.filter(|&limit| limit < bytes && !memory.may_lock_any) {
        doubts.push(format!(
            "RLIMIT_MEMLOCK is {}, less than the {} to pin, and some systems count pinned memory against it: raise it \
             with `ulimit -l unlimited` (in a container: --ulimit memlock=-1)",
            Bytes(limit),
            Bytes(bytes)
        ));
    }
    Ok(Preflight { warning, doubts })
}

/// What is short, if anything is.
fn shortage(what: &str, bytes: u64, way: PinWay, memory: &HostMemory) -> Option<PreflightError> {
    let lacks = |need, available, limit, certain| {
        Some(PreflightError { what: what.to_owned(), way, need, available, limit, certain })
    };
    if way == (PinWay::Copy { huge_pages: true }) && bytes <= memory.huge_pages {
        return None;
    }
    if bytes > memory.total {
        return lacks(bytes, memory.total, "this machine's memory".to_owned(), true);
    }
    // A file's cached pages count for the group that read them first, which may be another.
    let copied = way != PinWay::InPlace;
    if let Some(cgroup) = memory.cgroups.iter().find(|cgroup| copied && bytes > cgroup.limit) {
        let limit = format!("the control group's limit ({})", cgroup.file.display());
        return lacks(bytes, cgroup.limit, limit, true);
    }
    let need = bytes.saturating_add(RESERVE.min(bytes / 16));
    let (available, limit) = memory.tightest_limit();
    if need <= available { None } else { lacks(need, available, limit, false) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::memory::host_memory::CgroupLimit;

    const GIB: u64 = 1 << 30;

    fn machine(available: u64) -> HostMemory {
        HostMemory {
            available,
            total: 64 * GIB,
            huge_pages: 0,
            lock_limit: None,
            may_lock_any: false,
            cgroups: Vec::new(),
        }
    }

    const COPY: PinWay = PinWay::Copy { huge_pages: false };

    #[test]
    fn a_table_that_fits_with_its_reserve_passes_and_one_byte_more_does_not() {
        // 16 GiB and the largest reserve.
        let need = 16 * GIB + RESERVE;
        let asked = |available| {
            preflight("t", 16 * GIB, PinWay::InPlace, &machine(available), PreflightPolicy::Refuse)
        };
        assert_eq!(asked(need), Ok(Preflight::default()));
        let error = asked(need - 1).unwrap_err();
        assert_eq!((error.need, error.available, error.certain), (need, need - 1, false));
    }

    /// As on a guest whose memory grows: it says that it has 1 GiB, and would have had the 16.
    #[test]
    fn a_table_that_does_not_fit_what_is_free_now_is_warned_of_and_goes_on_unless_told_otherwise() {
        let asked = |policy| preflight("t", 16 * GIB, PinWay::InPlace, &machine(GIB), policy);
        let warning = asked(PreflightPolicy::Warn).unwrap().warning.unwrap();
        for part in ["may not fit", "16.5 GiB", "leaves 1.00 GiB", "--preflight refuse", "--preflight off"] {
            assert!(warning.contains(part), "`{part}` is missing in: {warning}");
        }
        assert!(asked(PreflightPolicy::Refuse).is_err());
        assert_eq!(asked(PreflightPolicy::Off), Ok(Preflight::default()));
    }

    #[test]
    fn what_no_memory_here_can_hold_is_refused_unless_nobody_is_to_look() {
        let mut memory = machine(64 * GIB);
        let larger = |memory: &HostMemory, bytes, way, policy| preflight("t", bytes, way, memory, policy);
        let error = larger(&memory, 65 * GIB, PinWay::InPlace, PreflightPolicy::Warn).unwrap_err();
        assert!(error.certain && error.to_string().contains("doesn't fit"), "{error}");
        assert!(larger(&memory, 65 * GIB, PinWay::InPlace, PreflightPolicy::Off).is_ok());
        let file = PathBuf::from("/sys/fs/cgroup/x/memory.max");
        memory.cgroups.push(CgroupLimit { file, limit: 8 * GIB, available: 8 * GIB });
        let error = larger(&memory, 9 * GIB, COPY, PreflightPolicy::Warn).unwrap_err();
        assert!(error.certain && error.to_string().contains("x/memory.max"), "{error}");
        // The pages of a file may be on another group's account.
        let warned = larger(&memory, 9 * GIB, PinWay::InPlace, PreflightPolicy::Warn).unwrap();
        assert!(warned.warning.is_some());
    }

    #[test]
    fn a_refusal_names_need_room_limit_and_what_to_do() {
        let memory = machine(30 * GIB);
        let text = preflight("the feature table feat.npy", 57 * GIB, COPY, &memory, PreflightPolicy::Refuse)
            .unwrap_err()
            .to_string();
        for part in [
            "the feature table feat.npy",
            "a copy",
            "57.5 GiB",
            "30.0 GiB",
            "64.0 GiB",
            "--feat-dtype f16",
            "--gpu-cache",
        ] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    }

    #[test]
    fn a_low_lock_limit_is_a_doubt_unless_the_capability_lifts_it() {
        let mut memory = HostMemory { lock_limit: Some(8 << 20), ..machine(60 * GIB) };
        let doubts = |memory: &HostMemory, bytes| {
            preflight("t", bytes, PinWay::InPlace, memory, PreflightPolicy::Refuse).unwrap().doubts
        };
        let found = doubts(&memory, GIB);
        assert!(
            found.len() == 1 && found[0].contains("8.00 MiB") && found[0].contains("ulimit -l"),
            "{found:?}"
        );
        assert_eq!(doubts(&memory, 8 << 20).len(), 0);
        memory.may_lock_any = true;
        assert_eq!(doubts(&memory, GIB).len(), 0);
    }
}
