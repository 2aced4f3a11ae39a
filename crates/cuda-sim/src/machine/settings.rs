//! Settings from the environment: the simulated machine and its faults. Read once, at the first call.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::machine::codes::Code;
use crate::machine::functions::{Exported, place};

/// A feature that settings may disable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    Vmm,
    IpcEvent,
    IpcMemory,
    StreamMemoryOperations,
    Green,
    ReadOnlyRegister,
    HostRegister,
    PeerAccess,
}

const FEATURES: &[(&str, Feature)] = &[
    ("vmm", Feature::Vmm),
    ("ipc_event", Feature::IpcEvent),
    ("ipc_memory", Feature::IpcMemory),
    ("stream_memory_operations", Feature::StreamMemoryOperations),
    ("green", Feature::Green),
    ("read_only_register", Feature::ReadOnlyRegister),
    ("host_register", Feature::HostRegister),
    ("peer_access", Feature::PeerAccess),
];

/// A rule that the driver's documentation states but not every driver enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// An event is recorded on streams of the context that it was made in, a green context being one of its own.
    GreenEvents,
    /// Two green contexts of a process must not share multiprocessors.
    GreenGroups,
    /// A client of MPS that is killed with work in flight takes the server with it.
    Mps,
}

const STRICTNESSES: &[(&str, Strictness)] = &[
    ("green_events", Strictness::GreenEvents),
    ("green_groups", Strictness::GreenGroups),
    ("mps", Strictness::Mps),
];

/// One entry of `CUDA_SIM_FAIL`, for the role of this process.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its place in the table of exported functions.
    pub function: usize,
    /// The call that fails, from 1; `None` for every call.
    pub nth: Option<u64>,
    pub code: Code,
}

/// The settings of the simulated machine.
#[derive(Debug)]
pub struct Settings {
    pub devices: usize,
    /// Bytes of each device, for each process.
    pub memory: u64,
    pub driver_version: i32,
    pub multiprocessors: u32,
    pub capability: (i32, i32),
    pub lacks: Vec<Feature>,
    pub strict: Vec<Strictness>,
    pub faults: Vec<Fault>,
    pub counts: Option<PathBuf>,
    /// Microseconds that an operation of a stream may be late.
    pub delay_us: u64,
    /// Whether training draws other numbers for dropout than on a CPU, as on a GPU.
    pub draws_as_a_device: bool,
    /// Whether allocating or freeing memory while a kernel is held loses the context.
    pub watches_held_kernels: bool,
}

impl Settings {
    /// Whether the machine has the feature.
    pub fn has(&self, feature: Feature) -> bool {
        !self.lacks.contains(&feature)
    }

    /// Whether the rule is enforced.
    pub fn is_strict(&self, strictness: Strictness) -> bool {
        self.strict.contains(&strictness)
    }

    /// Checks that the machine has the feature.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED` if it does not.
    pub fn need(&self, feature: Feature) -> Result<(), Code> {
        if self.has(feature) { Ok(()) } else { Err(Code::NOT_SUPPORTED) }
    }

    /// The code with which call number `nth` of `function` must fail, if any.
    pub fn fault(&self, function: usize, nth: u64) -> Option<Code> {
        let due = |fault: &&Fault| fault.function == function && fault.nth.is_none_or(|n| n == nth);
        self.faults.iter().find(due).map(|fault| fault.code)
    }

    /// Reads the variables by `variable`, for a process whose first argument is `role`.
    fn read(
        functions: &[Exported],
        variable: &dyn Fn(&str) -> Option<String>,
        role: &str,
    ) -> Result<Self, String> {
        let capability = variable("CUDA_SIM_CAPABILITY").unwrap_or_else(|| "9.0".to_owned());
        let capability = capability
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .ok_or_else(|| format!("CUDA_SIM_CAPABILITY={capability}: not a version such as 9.0"))?;
        Ok(Self {
            devices: number(variable, "CUDA_SIM_DEVICES", 1)?,
            memory: number(variable, "CUDA_SIM_MEMORY", 8 << 30)?,
            driver_version: number(variable, "CUDA_SIM_DRIVER_VERSION", 13000)?,
            multiprocessors: number(variable, "CUDA_SIM_MULTIPROCESSORS", 132)?,
            capability,
            lacks: named("CUDA_SIM_LACKS", FEATURES, variable)?,
            strict: named("CUDA_SIM_STRICT", STRICTNESSES, variable)?,
            faults: entries(variable("CUDA_SIM_FAIL"))
                .iter()
                .filter_map(|entry| fault(functions, entry, role).transpose())
                .collect::<Result<_, _>>()?,
            counts: variable("CUDA_SIM_COUNTS").filter(|folder| !folder.is_empty()).map(PathBuf::from),
            delay_us: number(variable, "CUDA_SIM_DELAY_US", 0)?,
            draws_as_a_device: choice(variable, "CUDA_SIM_DROPOUT", ["host", "device"])?,
            watches_held_kernels: choice(variable, "CUDA_SIM_WATCHDOG", ["0", "1"])?,
        })
    }
}

fn number<T: std::str::FromStr>(
    variable: &dyn Fn(&str) -> Option<String>,
    name: &str,
    otherwise: T,
) -> Result<T, String> {
    match variable(name) {
        None => Ok(otherwise),
        Some(text) => text.parse().map_err(|_| format!("{name}={text}: not a number")),
    }
}

/// Whether a variable with two values has the second one; the first is the default.
fn choice(
    variable: &dyn Fn(&str) -> Option<String>,
    name: &str,
    [no, yes]: [&str; 2],
) -> Result<bool, String> {
    match variable(name) {
        None => Ok(false),
        Some(text) if text == no || text == yes => Ok(text == yes),
        Some(text) => Err(format!("{name}={text}: neither {no} nor {yes}")),
    }
}

/// The entries of a list with commas.
pub(crate) fn entries(list: Option<String>) -> Vec<String> {
    let list = list.unwrap_or_default();
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

/// A variable's entries, each by its name in the table.
fn named<T: Copy>(
    variable: &str,
    table: &[(&str, T)],
    read: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<T>, String> {
    let of_name = |name: &String| {
        table.iter().find(|(known, _)| known == name).map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<&str> = table.iter().map(|(known, _)| *known).collect();
            format!("{variable}: no `{name}`; there are {}", known.join(", "))
        })
    };
    entries(read(variable)).iter().map(of_name).collect()
}

/// Reads `[ROLE:]FUNCTION:N=CODE`; `None` for another role.
fn fault(functions: &[Exported], entry: &str, role: &str) -> Result<Option<Fault>, String> {
    let FaultEntry { whose, function, nth, code } = FaultEntry::read("CUDA_SIM_FAIL", entry)?;
    let wrong = |what: &str| format!("CUDA_SIM_FAIL: `{entry}`: {what}");
    // A misspelt name would inject no fault, and a test would pass wrongly.
    let function = place(functions, function)
        .ok_or_else(|| wrong(&format!("no function `{function}` is exported by cuda-sim")))?;
    let code = Code::parse(code).filter(|code| code.0 != 0).ok_or_else(|| wrong("no such CUresult"))?;
    Ok(whose.is_none_or(|whose| whose == role).then_some(Fault { function, nth, code }))
}

/// `[ROLE:]FUNCTION:N=CODE`, in its parts.
pub(crate) struct FaultEntry<'e> {
    pub whose: Option<&'e str>,
    pub function: &'e str,
    /// The call that fails, from 1; `None` for every call.
    pub nth: Option<u64>,
    pub code: &'e str,
}

impl<'e> FaultEntry<'e> {
    /// Reads an entry of this variable. The caller resolves the function and the code.
    pub(crate) fn read(variable: &str, entry: &'e str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{variable}: `{entry}`: {what}");
        let shape = || wrong("not [ROLE:]FUNCTION:N=CODE");
        let (call, code) = entry.split_once('=').ok_or_else(shape)?;
        let (whose, function, nth) = match call.split(':').collect::<Vec<_>>()[..] {
            [function, nth] => (None, function, nth),
            [whose, function, nth] => (Some(whose), function, nth),
            _ => return Err(shape()),
        };
        let number = || wrong("N is a number from 1, or *");
        let nth = match nth {
            "*" => None,
            nth => Some(nth.parse().ok().filter(|&n| n > 0).ok_or_else(number)?),
        };
        Ok(Self { whose, function, nth, code })
    }
}

/// The first argument of this process, which is its role in this project; empty without arguments.
pub fn role() -> String {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let first = line.split(|&byte| byte == 0).nth(1).unwrap_or_default();
    String::from_utf8_lossy(first).into_owned()
}

static SETTINGS: OnceLock<Result<Settings, String>> = OnceLock::new();

/// The settings of this process, read by the first call. `functions` are those that faults may name.
///
/// # Errors
/// The invalid variable, and the reason. [`crate::machine::device::init`] reports it, and all other calls fail.
pub fn settings(functions: &[Exported]) -> Result<&'static Settings, &'static str> {
    let variable = |name: &str| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned());
    SETTINGS.get_or_init(|| Settings::read(functions, &variable, &role())).as_ref().map_err(String::as_str)
}

/// The settings, during a call.
///
/// # Errors
/// As [`settings`].
pub fn known_settings() -> Result<&'static Settings, &'static str> {
    match SETTINGS.get() {
        Some(settings) => settings.as_ref().map_err(String::as_str),
        None => Err("nothing has been called yet"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    fn functions() -> [Exported; 2] {
        ["cuInit", "cuMemAlloc_v2"].map(|name| Exported {
            name,
            address: std::ptr::null,
            calls: AtomicU64::new(0),
        })
    }

    fn read(pairs: &[(&str, &str)], role: &str) -> Result<Settings, String> {
        let variable =
            |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        Settings::read(&functions(), &variable, role)
    }

    #[test]
    fn an_empty_environment_is_one_device_of_compute_capability_9() {
        let settings = read(&[], "").unwrap();
        assert_eq!((settings.devices, settings.memory, settings.capability), (1, 8 << 30, (9, 0)));
        assert!(settings.has(Feature::Vmm) && settings.faults.is_empty());
    }

    #[test]
    fn a_fault_counts_for_its_role_only() {
        let list = [("CUDA_SIM_FAIL", "producer:cuMemAlloc:3=2, cuInit:*=CUDA_ERROR_NO_DEVICE")];
        let producer = read(&list, "producer").unwrap();
        let place = place(&functions(), "cuMemAlloc").unwrap();
        assert_eq!(producer.fault(place, 3), Some(Code::OUT_OF_MEMORY));
        assert_eq!(producer.fault(place, 2), None);
        let consumer = read(&list, "consumer").unwrap();
        assert_eq!(consumer.fault(place, 3), None);
        assert_eq!(consumer.fault(super::place(&functions(), "cuInit").unwrap(), 17), Some(Code::NO_DEVICE));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (name, text) in [
            ("CUDA_SIM_FAIL", "cuMemAllok:1=2"),
            ("CUDA_SIM_FAIL", "cuMemAlloc:0=2"),
            ("CUDA_SIM_FAIL", "cuMemAlloc:1=CUDA_ERROR_BAD_MOOD"),
            ("CUDA_SIM_FAIL", "cuMemAlloc:1=0"),
            ("CUDA_SIM_FAIL", "cuMemAlloc"),
            ("CUDA_SIM_LACKS", "vm"),
            ("CUDA_SIM_STRICT", "green"),
            ("CUDA_SIM_MEMORY", "8GiB"),
            ("CUDA_SIM_CAPABILITY", "9"),
            ("CUDA_SIM_DROPOUT", "gpu"),
            ("CUDA_SIM_WATCHDOG", "yes"),
        ] {
            let error = read(&[(name, text)], "").unwrap_err();
            assert!(error.contains(name), "{name}={text} gave: {error}");
        }
    }
}
