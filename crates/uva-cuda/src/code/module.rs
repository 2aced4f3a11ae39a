//! Kernels on a device: the embedded sources, compiled for it and loaded into a context.

use std::ffi::{CStr, CString, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys;
use serde::Serialize;
use uva_kernels::{GATHER, KernelSource, OPTIONS, SAMPLE, TRAIN};

use crate::code::cubin_cache::{CacheKind, CubinCache};
use crate::code::image::{key, label, machine_code};
use crate::code::kernel_bundle;
use crate::code::nvrtc::{CompileTarget, Nvrtc};
use crate::devices::context::Context;
use crate::devices::driver::Driver;
use crate::error::{CudaError, check};

/// The simulator's image: it already has every kernel compiled for the host.
const SIMULATED_IMAGE: &CStr = c"uva-kernel-sim";

/// The sources of compiled kernels.
#[derive(Debug, Clone, Default)]
pub struct ModuleOptions {
    /// The folder of NVRTC, or the library itself; [`Nvrtc::find`] searches if absent.
    pub nvrtc: Option<PathBuf>,
    /// The cache of compiled kernels.
    pub cache: CacheKind,
}

/// The origin of a module.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModuleReport {
    /// The source of its code.
    pub origin: CodeOrigin,
    /// Its target, `sm_90`; absent under the simulator without NVRTC.
    pub target: Option<String>,
    /// NVRTC's version and path; absent under the simulator without NVRTC.
    pub nvrtc: Option<String>,
    /// Seconds from the request to the loaded module.
    pub seconds: f64,
    /// Why the next run compiles again, or the fault of the cached entry.
    pub note: Option<String>,
}

/// The source of a module's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeOrigin {
    /// Compiled before the program ran, and shipped with it.
    Carried,
    /// The cache on disk.
    Cache,
    /// Compiled just now.
    Compiled,
    /// The simulator's own compilation for the host, without NVRTC.
    Simulator,
}

/// A module of kernels loaded into a context. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Module {
    loaded: Arc<Loaded>,
    report: ModuleReport,
}

#[derive(Debug)]
struct Loaded {
    context: Arc<Context>,
    raw: sys::CUmodule,
}

// SAFETY: a CUmodule is a handle that any thread may use while its context lives; the Arc keeps it alive.
unsafe impl Send for Loaded {}
// SAFETY: as above; nothing here is mutated.
unsafe impl Sync for Loaded {}

/// A kernel of a module, which it keeps loaded.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    module: Arc<Loaded>,
    raw: sys::CUfunction,
    name: &'static str,
}

// SAFETY: a CUfunction is a handle into its module, which the Arc keeps; launching from several threads is allowed.
unsafe impl Send for Function {}
// SAFETY: as above; nothing here is mutated.
unsafe impl Sync for Function {}

impl Module {
    /// The gather kernels, for the context's device.
    ///
    /// They come from the kernels shipped with the program ([`crate::carry_kernels`]), unless the options name an
    /// NVRTC; else from the cache; else they are compiled and cached. Under the simulator NVRTC is used in the same way
    /// if it is found, so that this path is tested. Otherwise the simulator's own compilation is used.
    ///
    /// # Errors
    /// [`CudaError::NoNvrtc`], [`CudaError::Compile`], [`CudaError::Unsupported`] as for [`Nvrtc::target`];
    /// [`CudaError::Call`] if the driver refuses the image.
    pub fn gather(context: &Arc<Context>, options: &ModuleOptions) -> Result<Self, CudaError> {
        Self::of(context, &GATHER, options)
    }

    /// The sampling kernels, for the context's device; otherwise as [`Module::gather`].
    ///
    /// # Errors
    /// As [`Module::gather`].
    pub fn sample(context: &Arc<Context>, options: &ModuleOptions) -> Result<Self, CudaError> {
        Self::of(context, &SAMPLE, options)
    }

    /// The kernels of a training step; otherwise as [`Module::gather`].
    ///
    /// # Errors
    /// As [`Module::gather`].
    pub fn train(context: &Arc<Context>, options: &ModuleOptions) -> Result<Self, CudaError> {
        Self::of(context, &TRAIN, options)
    }

    fn of(
        context: &Arc<Context>,
        source: &KernelSource<'_>,
        options: &ModuleOptions,
    ) -> Result<Self, CudaError> {
        let began = Instant::now();
        let finish = |loaded, origin, target: Option<CompileTarget>, nvrtc: Option<&Nvrtc>, note| Self {
            loaded: Arc::new(loaded),
            report: ModuleReport {
                origin,
                target: target.map(CompileTarget::name),
                nvrtc: nvrtc.map(describe),
                seconds: began.elapsed().as_secs_f64(),
                note,
            },
        };
        let capability = context.device().capability();
        let mut note = None;
        // An explicitly named NVRTC must be the one that compiles.
        if options.nvrtc.is_none()
            && let Some(image) = kernel_bundle::find(source, capability)
        {
            match Loaded::new(context, &image, source.name) {
                Ok(loaded) => {
                    let target = machine_code(capability);
                    return Ok(finish(loaded, CodeOrigin::Carried, Some(target), None, None));
                }
                Err(error) => note = Some(format!("the driver refused the precompiled kernels: {error}")),
            }
        }
        let nvrtc = match Nvrtc::find(options.nvrtc.as_deref()) {
            Ok(nvrtc) => nvrtc,
            // An explicitly named NVRTC must be used, under the simulator too.
            Err(_) if options.nvrtc.is_none() && Driver::load()?.device_memory_is_host_memory() => {
                let loaded = Loaded::new(context, SIMULATED_IMAGE.to_bytes_with_nul(), source.name)?;
                return Ok(finish(loaded, CodeOrigin::Simulator, None, None, None));
            }
            Err(error) => return Err(error),
        };
        let target = nvrtc.target(capability)?;
        let (label, key) = (label(source, target), key(source, target, Some(nvrtc.version())));
        let cache = options.cache.folder().map(CubinCache::new);
        if let Some(image) = cache.as_ref().and_then(|cache| cache.load(&label, key)) {
            match Loaded::new(context, &image, source.name) {
                Ok(loaded) => return Ok(finish(loaded, CodeOrigin::Cache, Some(target), Some(&nvrtc), note)),
                // The checksum matches, but this driver refuses the image: recompile once.
                Err(error) => {
                    note = Some(format!("the driver refused the kernels in the kernel cache: {error}"))
                }
            }
        }
        let mut image = nvrtc.compile(source, target, &OPTIONS)?;
        if matches!(target, CompileTarget::Ptx(..)) && image.last() != Some(&0) {
            // The driver finds the end of PTX by a zero; a cubin states its own length.
            image.push(0);
        }
        let loaded = Loaded::new(context, &image, source.name)?;
        if let Some(cache) = cache
            && let Err(error) = cache.store(&label, key, &image)
        {
            note = Some(format!("{} was not written: {error}", cache.path(&label, key).display()));
        }
        Ok(finish(loaded, CodeOrigin::Compiled, Some(target), Some(&nvrtc), note))
    }

    /// Its origin.
    pub fn report(&self) -> &ModuleReport {
        &self.report
    }

    /// The context that holds it.
    pub fn context(&self) -> &Arc<Context> {
        &self.loaded.context
    }

    /// A kernel by its name.
    pub(crate) fn function(&self, name: &'static str) -> Result<Function, CudaError> {
        let text = CString::new(name).map_err(|_| {
            CudaError::Refused(format!("{name:?} is not a name of a kernel: it contains a zero byte"))
        })?;
        self.loaded.context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle; the module lives and the name ends in zero.
        unsafe {
            driver_call!(
                cuModuleGetFunction(&mut raw, self.loaded.raw, text.as_ptr()),
                "looking for the kernel {name}"
            )
        }?;
        // The driver may leave a kernel unloaded until its first launch, and then wait for the device to load it. If
        // `spin_until` runs there until more work is enqueued, that wait never ends. So it is loaded now.
        if let Some(load) = Driver::load()?.finish_loading() {
            // SAFETY: the function was just found in a module that lives.
            check("cuFuncLoad", unsafe { load(raw) }, || format!("loading the kernel {name}"))?;
        }
        Ok(Function { module: Arc::clone(&self.loaded), raw, name })
    }
}

fn describe(nvrtc: &Nvrtc) -> String {
    let (major, minor) = nvrtc.version();
    format!("{major}.{minor} ({})", nvrtc.found())
}

impl Loaded {
    /// Loads an image: a cubin, PTX that ends in zero, or the simulator's name that ends in zero.
    fn new(context: &Arc<Context>, image: &[u8], name: &str) -> Result<Self, CudaError> {
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle; the context is current. The image is one that NVRTC made, protected by a checksum
        // in the cache, or a text that ends in zero, so the driver finds its end. No options.
        unsafe {
            driver_call!(
                cuModuleLoadDataEx(
                    &mut raw,
                    image.as_ptr().cast(),
                    0,
                    std::ptr::null_mut(),
                    std::ptr::null_mut()
                ),
                "loading the kernels of {name} on device {} ({})",
                context.device().ordinal(),
                context.device().name()
            )
        }?;
        Ok(Self { context: Arc::clone(context), raw })
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // Unloading does not wait: a launch must keep the code loaded until the kernel has run. Without the context the
        // module is already gone, so errors are ignored.
        if self.context.bind().is_ok() {
            // SAFETY: loaded once, unloaded once; every Function holds an Arc of this.
            let _ = unsafe { driver_call!(cuModuleUnload(self.raw), "unloading kernels") };
        }
    }
}

/// Grid and block of a launch, in blocks and threads; one dimension is enough here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaunchShape {
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
}

impl Function {
    /// The context of its module.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.module.context
    }

    /// Enqueues the kernel.
    ///
    /// # Safety
    /// `arguments` point to the kernel's parameters, in order and by type. Everything that these name stays valid, and
    /// the module loaded, until the kernel has run.
    pub(crate) unsafe fn launch(
        &self,
        stream: &crate::stream::CudaStream,
        shape: LaunchShape,
        arguments: &mut [*mut c_void],
    ) -> Result<(), CudaError> {
        self.module.context.bind()?;
        // SAFETY: function and stream live. The driver copies the parameters before it returns. The rest is the
        // caller's promise. No dynamic shared memory, no extra options.
        unsafe {
            driver_call!(
                cuLaunchKernel(
                    self.raw,
                    shape.blocks,
                    1,
                    1,
                    shape.threads,
                    1,
                    1,
                    0,
                    stream.handle(),
                    arguments.as_mut_ptr(),
                    std::ptr::null_mut()
                ),
                "launching {} with {} blocks of {} threads",
                self.name,
                shape.blocks,
                shape.threads
            )
        }
    }

    /// Resident blocks of this many threads per multiprocessor.
    pub(crate) fn blocks_per_multiprocessor(&self, threads: u32) -> Result<u32, CudaError> {
        self.module.context.bind()?;
        let mut blocks = 0;
        // SAFETY: writes one int; the function lives.
        unsafe {
            driver_call!(
                cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, self.raw, threads as i32, 0),
                "querying how many blocks of {} a multiprocessor holds",
                self.name
            )
        }?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// One attribute, a count.
    pub(crate) fn attribute(&self, attribute: sys::CUfunction_attribute) -> Result<u32, CudaError> {
        self.module.context.bind()?;
        let mut value = 0;
        // SAFETY: writes one int; the function lives.
        unsafe {
            driver_call!(
                cuFuncGetAttribute(&mut value, attribute, self.raw),
                "querying {attribute:?} of {}",
                self.name
            )
        }?;
        Ok(u32::try_from(value).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use uva_kernels::SOURCES;

    use super::*;

    /// Runs if NVRTC is present; CI brings it and sets UVATRAIN_REQUIRE_NVRTC.
    #[test]
    fn nvrtc_compiles_the_kernels() {
        let nvrtc = match Nvrtc::find(None) {
            Ok(nvrtc) => nvrtc,
            Err(error) => {
                assert!(std::env::var_os("UVATRAIN_REQUIRE_NVRTC").is_none(), "{error}");
                eprintln!("skipped: {error}");
                return;
            }
        };
        for capability in [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)] {
            let target = nvrtc.target(capability).unwrap();
            assert_eq!(target, CompileTarget::Cubin(capability.0, capability.1));
        }
        // scripts/check/kernels.py compiles them for all of these, which takes a minute and a half.
        let target = CompileTarget::Cubin(9, 0);
        for source in SOURCES {
            let image = nvrtc.compile(source, target, &OPTIONS).unwrap();
            assert_eq!(&image[..4], b"\x7fELF", "{} {}", source.name, target.name());
        }
        // A device newer than NVRTC gets portable code. An older one is an error that names the oldest supported
        // device.
        assert!(matches!(nvrtc.target((99, 0)).unwrap(), CompileTarget::Ptx(..)));
        assert!(nvrtc.target((3, 5)).unwrap_err().to_string().contains("7.5"));
        let ptx = nvrtc.compile(&GATHER, CompileTarget::Ptx(9, 0), &OPTIONS).unwrap();
        assert!(ptx.starts_with(b"//") && String::from_utf8_lossy(&ptx).contains(".target sm_90"));
        // A compile error names the line.
        let wrong = KernelSource {
            name: "wrong.cu",
            text: "extern \"C\" __global__ void f() { nothing(); }",
            headers: &[],
        };
        let error = nvrtc.compile(&wrong, CompileTarget::Cubin(9, 0), &OPTIONS).unwrap_err().to_string();
        assert!(error.contains("wrong.cu") && error.contains("nothing"), "{error}");
    }
}
