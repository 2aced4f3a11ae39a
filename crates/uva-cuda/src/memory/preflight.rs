//! Checks whether a table can be pinned here before minutes are spent on the attempt.
//!
//! Pinned pages must all be in memory at once and can't be reclaimed. A failure is certain in two cases only: the table
//! is larger than the machine's whole memory, or a copy of it is larger than a control group's limit. The memory
//! available now is no more than a hint: a guest whose memory grows reports little, and caches that others hold may
//! shrink. So a shortage is a warning unless [`PreflightPolicy`] says otherwise.
//!
//! `RLIMIT_MEMLOCK` is different. NVIDIA's kernel driver takes the pages with `get_user_pages`, which doesn't count
//! against it. So most machines pin hundreds of gigabytes under a limit of 8 MiB. A low limit is therefore only a
//! [doubt](Preflight::doubts): it is reported when a registration is refused, and never causes a refusal.

use std::fmt;

use serde::Serialize;
use uva_options::named;

use crate::memory::bytes::ByteCount;
use crate::memory::host_memory::HostMemory;

/// Reserve for everything else, at most: less for small tables, which are not a risk.
const RESERVE: u64 = 512 << 20;

/// How the pages come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinWay {
    /// The pages of a mapping are pinned in place. For a mapped file they're the file's cached pages, which count as
    /// available until they're pinned.
    InPlace,
    /// The bytes are copied into new memory, which is pinned. The file's cached pages are dropped as memory is needed.
    Copy {
        /// Whether the copy uses reserved huge pages, if there are enough of them.
        huge_pages: bool,
    },
}

named! {
    /// Reaction to memory that seems too short for a table.
    pub enum PreflightPolicy = Warn {
        /// Warn and try anyway, unless it is certain to fail.
        Warn = "warn",
        /// End with an error that names the limit.
        Refuse = "refuse",
        /// Do not check.
        Off = "off",
    }
}

/// The result of a preflight that refused nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preflight {
    /// The shortage and its possible consequences, in words.
    pub warning: Option<String>,
    /// Limits that may interfere on some systems, in words: worth reporting if a registration is refused.
    pub doubts: Vec<String>,
}

/// What shall be pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinRequest<'a> {
    /// Its name in messages.
    pub what: &'a str,
    /// Its size in bytes.
    pub bytes: u64,
    /// How it is pinned.
    pub way: PinWay,
    /// What needs less pinned memory, in words.
    pub remedies: &'static str,
}

/// A table needs more memory than can be pinned here, or seems to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PreflightError {
    /// The table.
    pub what: String,
    /// How it was to be pinned.
    pub way: PinWay,
    /// What needs less pinned memory, in words.
    pub remedies: &'static str,
    /// Bytes it needs, the reserve for everything else included.
    pub need: u64,
    /// Bytes available.
    pub available: u64,
    /// The source of that limit.
    pub limit: String,
    /// Whether it fails even if others free their memory.
    pub certain: bool,
}

impl fmt::Display for PreflightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, way, remedies, need, available, limit, certain } = self;
        let how = match way {
            PinWay::InPlace => "pinning it",
            PinWay::Copy { .. } => "pinning a copy of it, since the mapping itself can't be pinned,",
        };
        let (fit, leaves) = if *certain { ("doesn't", "is") } else { ("may not", "leaves") };
        write!(
            f,
            "{what} {fit} fit into the memory that can be pinned: {how} needs {}, and {limit} {leaves} {}; \
             {remedies}, or free memory or raise that limit",
            ByteCount(*need),
            ByteCount(*available)
        )
    }
}

/// Compares what pinning a request's bytes needs with what `memory` has.
///
/// # Errors
/// [`PreflightError`], unless `policy` is [`PreflightPolicy::Off`], if the table is larger than the machine's memory or,
/// for a copy, than a control group's limit. With [`PreflightPolicy::Refuse`] it also results if the machine or a
/// control group leaves less than the table and a reserve of a sixteenth of it, 512 MiB at most.
pub fn preflight(
    request: &PinRequest<'_>,
    memory: &HostMemory,
    policy: PreflightPolicy,
) -> Result<Preflight, PreflightError> {
    let bytes = request.bytes;
    let warning = match shortage(request, memory) {
        Some(error)
            if policy == PreflightPolicy::Refuse || (error.certain && policy == PreflightPolicy::Warn) =>
        {
            return Err(error);
        }
        Some(error) if policy == PreflightPolicy::Warn => Some(format!(
            "{error}. It is tried anyway, and the system may kill processes for lack of memory; `preflight=refuse` \
             makes this an error, `preflight=off` disables the check"
        )),
        _ => None,
    };
    let mut doubts = Vec::new();
    if let Some(limit) = memory.lock_limit.filter(|&limit| limit < bytes && !memory.may_lock_any) {
        doubts.push(format!(
            "RLIMIT_MEMLOCK is {}, less than the {} to pin, and some systems count pinned memory against it: raise it \
             with `ulimit -l unlimited` (in a container: `docker run --ulimit memlock=-1`)",
            ByteCount(limit),
            ByteCount(bytes)
        ));
    }
    Ok(Preflight { warning, doubts })
}

/// The shortage, if any.
fn shortage(request: &PinRequest<'_>, memory: &HostMemory) -> Option<PreflightError> {
    let PinRequest { what, bytes, way, remedies } = *request;
    let lacks = |need, available, limit, certain| {
        Some(PreflightError { what: what.to_owned(), way, remedies, need, available, limit, certain })
    };
    if way == (PinWay::Copy { huge_pages: true }) && bytes <= memory.huge_pages {
        return None;
    }
    if bytes > memory.total {
        return lacks(bytes, memory.total, "this machine's memory".to_owned(), true);
    }
    // A file's cached pages are charged to the group that read them first, which may be another.
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

    fn table(bytes: u64, way: PinWay) -> PinRequest<'static> {
        PinRequest { what: "the feature table feat.npy", bytes, way, remedies: "halve the table" }
    }

    #[test]
    fn a_table_that_fits_with_its_reserve_passes_and_one_byte_more_does_not() {
        // 16 GiB and the largest reserve.
        let need = 16 * GIB + RESERVE;
        let asked = |available| {
            preflight(&table(16 * GIB, PinWay::InPlace), &machine(available), PreflightPolicy::Refuse)
        };
        assert_eq!(asked(need), Ok(Preflight::default()));
        let error = asked(need - 1).unwrap_err();
        assert_eq!((error.need, error.available, error.certain), (need, need - 1, false));
    }

    /// As on a guest whose memory grows: it reports 1 GiB but could have had all 16.
    #[test]
    fn a_table_too_large_for_free_memory_is_warned_of_or_refused_by_option() {
        let asked = |policy| preflight(&table(16 * GIB, PinWay::InPlace), &machine(GIB), policy);
        let warning = asked(PreflightPolicy::Warn).unwrap().warning.unwrap();
        for part in ["may not fit", "16.5 GiB", "leaves 1.00 GiB", "`preflight=refuse`", "`preflight=off`"] {
            assert!(warning.contains(part), "`{part}` is missing in: {warning}");
        }
        assert!(asked(PreflightPolicy::Refuse).is_err());
        assert_eq!(asked(PreflightPolicy::Off), Ok(Preflight::default()));
    }

    #[test]
    fn a_table_that_cannot_fit_is_refused_unless_the_check_is_off() {
        let mut memory = machine(64 * GIB);
        let larger = |memory: &HostMemory, bytes, way, policy| preflight(&table(bytes, way), memory, policy);
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
        let text =
            preflight(&table(57 * GIB, COPY), &memory, PreflightPolicy::Refuse).unwrap_err().to_string();
        for part in [
            "the feature table feat.npy",
            "a copy",
            "57.5 GiB",
            "30.0 GiB",
            "64.0 GiB",
            "; halve the table, or",
        ] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    }

    #[test]
    fn a_low_lock_limit_is_a_doubt_unless_the_capability_lifts_it() {
        let mut memory = HostMemory { lock_limit: Some(8 << 20), ..machine(60 * GIB) };
        let doubts = |memory: &HostMemory, bytes| {
            preflight(&table(bytes, PinWay::InPlace), memory, PreflightPolicy::Refuse).unwrap().doubts
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
