//! Kernels compiled before the program runs, and shipped with it.
//!
//! A machine then needs no NVRTC, and the first run compiles nothing. The kernels are in the folder `UVATRAIN_KERNELS`,
//! or else in `kernels` next to the running program, as entries of a [`CubinCache`]. An entry made from other sources,
//! with other options or for another architecture counts as missing.

use std::path::{Path, PathBuf};

use uva_kernels::{KernelSource, OPTIONS, SOURCES};

use crate::code::cubin_cache::CubinCache;
use crate::code::image::{key, label, machine_code};
use crate::code::nvrtc::Nvrtc;
use crate::error::CudaError;

/// Compiles all kernels for devices of exactly this compute capability and writes them into `folder`, which is created
/// if it is missing. No device is needed.
///
/// # Errors
/// [`CudaError::Unsupported`] if NVRTC makes no machine code for that capability; [`CudaError::Compile`];
/// [`CudaError::System`] if the folder cannot be written.
pub fn carry_kernels(
    nvrtc: &Nvrtc,
    capability: (u32, u32),
    folder: &Path,
) -> Result<Vec<PathBuf>, CudaError> {
    let target = nvrtc.target(capability)?;
    if target != machine_code(capability) {
        return Err(CudaError::Unsupported(format!(
            "NVRTC {}.{} ({}) makes no machine code for compute capability {}.{}",
            nvrtc.version().0,
            nvrtc.version().1,
            nvrtc.found(),
            capability.0,
            capability.1
        )));
    }
    let cache = CubinCache::new(folder.to_owned());
    let mut files = Vec::new();
    for source in SOURCES {
        let (label, key) = (label(source, target), key(source, target, None));
        let image = nvrtc.compile(source, target, &OPTIONS)?;
        let path = cache.path(&label, key);
        cache
            .store(&label, key, &image)
            .map_err(|error| CudaError::System(format!("{} was not written: {error}", path.display())))?;
        files.push(path);
    }
    Ok(files)
}

/// The machine code of a source, if it was shipped for this compute capability.
pub(crate) fn find(source: &KernelSource<'_>, capability: (u32, u32)) -> Option<Vec<u8>> {
    let target = machine_code(capability);
    CubinCache::new(folder()?).load(&label(source, target), key(source, target, None))
}

fn folder() -> Option<PathBuf> {
    match std::env::var_os("UVATRAIN_KERNELS") {
        Some(folder) if folder.is_empty() => None,
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(std::env::current_exe().ok()?.parent()?.join("kernels")),
    }
}
