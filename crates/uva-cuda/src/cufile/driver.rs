//! cuFile's driver.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

use cudarc::cufile::sys::{CUfileDriverStatusFlags, CUfileDrvProps_t};

use super::library::{CufileFunctions, functions};
use crate::devices::context::Context;

/// An environment variable of the library that forces the compatibility mode.
const FORCED: &str = "CUFILE_FORCE_COMPAT_MODE";

/// cuFile's driver, open. The library counts opens; dropping the last value closes it.
///
/// It must not be used after a `fork`.
pub struct Cufile {
    functions: &'static CufileFunctions,
    compatibility: Option<String>,
    /// The context that the driver uses until it is closed.
    context: Arc<Context>,
}

impl Cufile {
    /// Opens the driver, for reads into memory of this context's device.
    ///
    /// # Errors
    /// The reason: no library, a missing function, or a failure of the driver.
    pub fn open(context: &Arc<Context>) -> Result<Arc<Self>, String> {
        let functions = functions()?;
        context.bind().map_err(|error| error.to_string())?;
        // SAFETY: it has no arguments, and a context is current.
        unsafe { (functions.cuFileDriverOpen)() }.check("cuFileDriverOpen")?;
        // From here on a drop closes it.
        let mut open = Self { functions, compatibility: None, context: Arc::clone(context) };
        let mut properties = MaybeUninit::<CUfileDrvProps_t>::zeroed();
        // SAFETY: writes one struct of cufile.h, and the driver is open.
        let asked = unsafe { (functions.cuFileDriverGetProperties)(properties.as_mut_ptr()) };
        asked.check("cuFileDriverGetProperties")?;
        // SAFETY: plain numbers, zero before the call.
        let properties = unsafe { properties.assume_init() };
        let forced = std::env::var(FORCED).ok();
        open.compatibility = compatibility(&properties, forced.as_deref());
        Ok(Arc::new(open))
    }

    /// Why reads pass through host memory; `None` if they do not, as reported by the driver. For a file system without
    /// GPUDirect Storage the library may still use host memory.
    pub fn compatibility(&self) -> Option<&str> {
        self.compatibility.as_deref()
    }

    pub(super) fn functions(&self) -> &'static CufileFunctions {
        self.functions
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

/// Why reads pass through host memory, if they do, by the driver's properties and the variable's value.
fn compatibility(properties: &CUfileDrvProps_t, forced: Option<&str>) -> Option<String> {
    let is_forced = |value: &str| ["1", "true", "yes", "on"].contains(&value.to_lowercase().as_str());
    if let Some(value) = forced.filter(|value| is_forced(value)) {
        return Some(format!("{FORCED}={value}"));
    }
    let nvfs = &properties.nvfs;
    // The NVMe driver of newer kernels reads into a GPU's memory without `nvidia-fs`.
    let peer_to_peer = 1 << CUfileDriverStatusFlags::CU_FILE_NVME_P2P_SUPPORTED as u32;
    let without_nvfs = (nvfs.major_version, nvfs.minor_version) == (0, 0);
    (without_nvfs && nvfs.dstatusflags & peer_to_peer == 0)
        .then(|| "the kernel module nvidia-fs is not loaded".to_owned())
}

impl Drop for Cufile {
    fn drop(&mut self) {
        // Without the context there is nothing left to close.
        if self.context.bind().is_ok() {
            // SAFETY: opened once by this value. Its files and buffers hold the value, so they are gone.
            let _ = unsafe { (self.functions.cuFileDriverClose_v2)() };
        }
    }
}

impl fmt::Debug for Cufile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cufile").field("compatibility", &self.compatibility).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compatibility_mode_is_on_where_forced_or_where_gpu_reads_are_missing() {
        // SAFETY: plain numbers.
        let mut properties: CUfileDrvProps_t = unsafe { MaybeUninit::zeroed().assume_init() };
        assert!(compatibility(&properties, None).unwrap().contains("nvidia-fs"));
        properties.nvfs.dstatusflags = 1 << 11;
        assert_eq!(compatibility(&properties, None), None);
        (properties.nvfs.dstatusflags, properties.nvfs.major_version) = (0, 2);
        assert_eq!(compatibility(&properties, Some("false")), None);
        assert_eq!(compatibility(&properties, Some("TRUE")), Some(format!("{FORCED}=TRUE")));
    }
}
