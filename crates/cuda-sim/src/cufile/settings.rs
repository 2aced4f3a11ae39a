//! Settings of the stand-in libcufile, from the environment. Read once, at the first call.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::machine::settings::{FaultEntry, entries, role};

macro_rules! functions {
    ($($name:ident),* $(,)?) => {
        /// The functions of faults.
        #[allow(non_camel_case_types, clippy::enum_variant_names, reason = "the names of the library's functions")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Function { $($name),* }

        const FUNCTIONS: &[(&str, Function)] = &[$((stringify!($name), Function::$name)),*];
    };
}

functions! {
    cuFileDriverOpen,
    cuFileDriverClose_v2,
    cuFileDriverGetProperties,
    cuFileHandleRegister,
    cuFileBufRegister,
    cuFileBufDeregister,
    cuFileRead,
}

/// The settings of the library.
#[derive(Debug)]
pub struct Settings {
    /// Whether reads use host memory, without the kernel module.
    pub compatibility: bool,
    /// Whether reads return fewer bytes than requested.
    pub short: bool,
    faults: Vec<Fault>,
}

/// One entry of `CUDA_SIM_CUFILE_FAIL`, for the role of this process.
#[derive(Debug)]
struct Fault {
    function: Function,
    /// The call that fails, from 1; `None` for every call.
    nth: Option<u64>,
    code: u32,
    calls: AtomicU64,
}

impl Settings {
    /// The code with which this call of the function must fail, if any. Counts the call.
    pub fn fault(&self, function: Function) -> Option<u32> {
        let mut due = None;
        for fault in self.faults.iter().filter(|fault| fault.function == function) {
            let call = fault.calls.fetch_add(1, Ordering::Relaxed) + 1;
            if fault.nth.is_none_or(|nth| nth == call) {
                due = due.or(Some(fault.code));
            }
        }
        due
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>, role: &str) -> Result<Self, String> {
        let mut settings = Self { compatibility: false, short: false, faults: Vec::new() };
        for word in entries(variable("CUDA_SIM_CUFILE")) {
            match word.as_str() {
                "compat" => settings.compatibility = true,
                "short" => settings.short = true,
                _ => return Err(format!("CUDA_SIM_CUFILE: no `{word}`; there are compat, short")),
            }
        }
        for entry in entries(variable("CUDA_SIM_CUFILE_FAIL")) {
            settings.faults.extend(fault(&entry, role)?);
        }
        Ok(settings)
    }
}

/// Reads `[ROLE:]FUNCTION:N=CODE`; `None` for another role.
fn fault(entry: &str, role: &str) -> Result<Option<Fault>, String> {
    let FaultEntry { whose, function, nth, code } = FaultEntry::read("CUDA_SIM_CUFILE_FAIL", entry)?;
    let wrong = |what: &str| format!("CUDA_SIM_CUFILE_FAIL: `{entry}`: {what}");
    // A misspelt name would inject no fault, and a test would pass wrongly.
    let known = FUNCTIONS.iter().find(|(name, _)| *name == function);
    let function = known.ok_or_else(|| wrong("no such function"))?.1;
    let code = code.parse().ok().filter(|&code| code > 0);
    let code = code.ok_or_else(|| wrong("CODE is a number of cufile.h, or an errno for a read"))?;
    let fault = Fault { function, nth, code, calls: AtomicU64::new(0) };
    Ok(whose.is_none_or(|whose| whose == role).then_some(fault))
}

static SETTINGS: OnceLock<Result<Settings, String>> = OnceLock::new();

/// The settings of this process, read by the first call.
///
/// # Errors
/// The invalid variable, and the reason.
pub fn settings() -> Result<&'static Settings, &'static str> {
    let variable = |name: &str| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned());
    SETTINGS.get_or_init(|| Settings::read(&variable, &role())).as_ref().map_err(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)], role: &str) -> Result<Settings, String> {
        let variable =
            |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        Settings::read(&variable, role)
    }

    #[test]
    fn a_fault_is_of_one_call_and_one_role() {
        let list = [("CUDA_SIM_CUFILE_FAIL", "producer:cuFileRead:2=5, cuFileBufRegister:*=5036")];
        let settings = read(&list, "producer").unwrap();
        let found = [(); 3].map(|()| settings.fault(Function::cuFileRead));
        assert_eq!(found, [None, Some(5), None]);
        let settings = read(&list, "probe").unwrap();
        assert_eq!([(); 3].map(|()| settings.fault(Function::cuFileRead)), [None; 3]);
        assert_eq!(settings.fault(Function::cuFileBufRegister), Some(5036));
        assert!(!settings.compatibility && read(&[("CUDA_SIM_CUFILE", "compat")], "").unwrap().compatibility);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (name, text) in [
            ("CUDA_SIM_CUFILE", "fast"),
            ("CUDA_SIM_CUFILE_FAIL", "cuFileReed:1=5"),
            ("CUDA_SIM_CUFILE_FAIL", "cuFileRead:0=5"),
            ("CUDA_SIM_CUFILE_FAIL", "cuFileRead:1=EIO"),
            ("CUDA_SIM_CUFILE_FAIL", "cuFileRead"),
        ] {
            let error = read(&[(name, text)], "").unwrap_err();
            assert!(error.contains(name), "{name}={text} gave: {error}");
        }
    }
}
