//! NVRTC, NVIDIA's compiler as a library: searched where toolkits and PyTorch's wheels install it, and opened at run
//! time.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};
use uva_kernels::KernelSource;

use crate::code::cubin_cache::user_cache_folder;
use crate::code::libtorch::{self, AskPython};
use crate::code::toolkit;
use crate::error::{CudaError, loader_said};

/// The library's names, newest first. CUDA 12's works as well: a newer driver runs its code.
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
/// Paths of the library in a named folder: the folder itself, a toolkit's, the wheels' of CUDA 13 and 12.
const WITHIN: [&str; 5] = [".", "lib64", "lib", "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];
/// Installation advice, for messages.
const ADVICE: &str = "install it with `python3 -m pip install nvidia-cuda-nvrtc==13.0.88`, and give its folder by \
                      `nvrtc` or UVATRAIN_NVRTC if it is in another place";

type Program = *mut c_void;

/// An opened NVRTC.
#[derive(Debug)]
pub struct Nvrtc {
    functions: NvrtcFunctions,
    version: (u32, u32),
    found: String,
}

#[derive(Debug)]
#[allow(clippy::type_complexity, reason = "nvrtc.h's signatures")]
struct NvrtcFunctions {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    supported_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    supported: unsafe extern "C" fn(*mut c_int) -> c_int,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ptx_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    ptx: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
}

/// A compile target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompileTarget {
    /// Machine code for exactly this compute capability.
    Cubin(u32, u32),
    /// Portable code of this compute capability, which the driver translates at load time: for devices newer than the
    /// NVRTC found.
    Ptx(u32, u32),
}

impl CompileTarget {
    /// The value of `-arch`: `sm_90`, `compute_90`.
    pub fn name(self) -> String {
        match self {
            Self::Cubin(major, minor) => format!("sm_{major}{minor}"),
            Self::Ptx(major, minor) => format!("compute_{major}{minor}"),
        }
    }
}

impl Nvrtc {
    /// Searches for NVRTC and opens the first that works. If `option` (a folder, or the library itself) is given, or
    /// else `UVATRAIN_NVRTC` is set, no other place is searched. Without either, the order is:
    /// - next to the libtorch of this process, the one that [`libtorch::find`] finds, or that of `LIBTORCH`
    /// - the toolkit of `CUDA_HOME` or `CUDA_PATH`
    /// - `/usr/local/cuda`
    /// - the loader's search path
    /// - this program's cache folder
    ///
    /// # Errors
    /// [`CudaError::NoNvrtc`], with every place that was searched.
    pub fn find(option: Option<&Path>) -> Result<Self, CudaError> {
        let named = option.map(|path| (path.to_owned(), "the option `nvrtc`")).or_else(|| {
            let path = std::env::var_os("UVATRAIN_NVRTC").filter(|path| !path.is_empty())?;
            Some((PathBuf::from(path), "UVATRAIN_NVRTC"))
        });
        if let Some((path, by)) = named {
            return Self::open_at(&path).map_err(|reason| CudaError::NoNvrtc {
                reason: format!("{by} names {}, and there is no NVRTC that works: {reason}", path.display()),
            });
        }
        let mut tried = Vec::new();
        let mut attempt = |place: String, result: Result<Self, String>| match result {
            Ok(nvrtc) => Some(nvrtc),
            Err(reason) => {
                tried.push(format!("{place}: {reason}"));
                None
            }
        };
        for folder in folders_before_the_loader() {
            if let Some(nvrtc) = attempt(folder.display().to_string(), Self::open_at(&folder)) {
                return Ok(nvrtc);
            }
        }
        if let Some(nvrtc) = attempt("the loader's path".to_owned(), Self::open_by_loader()) {
            return Ok(nvrtc);
        }
        if let Some(folder) = user_cache_folder().map(|folder| folder.join("nvrtc-13.0.88"))
            && let Some(nvrtc) = attempt(folder.display().to_string(), Self::open_at(&folder))
        {
            return Ok(nvrtc);
        }
        Err(CudaError::NoNvrtc {
            reason: format!(
                "NVRTC, which compiles the kernels, is not on this machine ({}); {ADVICE}",
                tried.join("; ")
            ),
        })
    }

    /// The library at a path, or in a folder.
    fn open_at(path: &Path) -> Result<Self, String> {
        let file = library_in(path).ok_or("no libnvrtc.so.13, .12 or .so there")?;
        let mut trouble = None;
        if let Some(folder) = file.parent() {
            trouble = preload_builtins(folder).err();
        }
        Self::open(file.as_os_str(), file.display().to_string()).map_err(|reason| match trouble {
            Some(builtins) => format!("{reason}; {builtins}"),
            None => reason,
        })
    }

    /// The library by its name, found by the loader.
    fn open_by_loader() -> Result<Self, String> {
        let mut first = None;
        for name in NAMES {
            match Self::open(name.as_ref(), name.to_owned()) {
                Ok(nvrtc) => {
                    // NVRTC later opens the builtins by name. They are next to the library.
                    if let Some(folder) =
                        mapped("libnvrtc.so").and_then(|path| Some(path.parent()?.to_owned()))
                    {
                        // If they don't load from there, the loader may still find them; otherwise compilation fails.
                        let _ = preload_builtins(&folder);
                    }
                    return Ok(nvrtc);
                }
                Err(reason) => first = first.or(Some(reason)),
            }
        }
        Err(first.unwrap_or_default())
    }

    fn open(name: &std::ffi::OsStr, found: String) -> Result<Self, String> {
        // SAFETY: the library's initialisers are NVIDIA's and may run at any time.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| loader_said(&error))?;
        // Never closed: we keep its functions' addresses, and a process opens it once or twice.
        let library: &'static Library = Box::leak(Box::new(library));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the field it goes into has nvrtc.h's signature, which is the same in CUDA 12 and 13.
                *unsafe { library.get(concat!($name, "\0")) }.map_err(|_| concat!("it has no ", $name))?
            };
        }
        let functions = NvrtcFunctions {
            version: function!("nvrtcVersion"),
            error_string: function!("nvrtcGetErrorString"),
            supported_count: function!("nvrtcGetNumSupportedArchs"),
            supported: function!("nvrtcGetSupportedArchs"),
            create: function!("nvrtcCreateProgram"),
            compile: function!("nvrtcCompileProgram"),
            destroy: function!("nvrtcDestroyProgram"),
            log_size: function!("nvrtcGetProgramLogSize"),
            log: function!("nvrtcGetProgramLog"),
            cubin_size: function!("nvrtcGetCUBINSize"),
            cubin: function!("nvrtcGetCUBIN"),
            ptx_size: function!("nvrtcGetPTXSize"),
            ptx: function!("nvrtcGetPTX"),
        };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two ints.
        if unsafe { (functions.version)(&mut major, &mut minor) } != 0 {
            return Err("it does not report its version".to_owned());
        }
        let version = (u32::try_from(major).unwrap_or(0), u32::try_from(minor).unwrap_or(0));
        if version.0 < 12 {
            return Err(format!("it is NVRTC {}.{}, and 12 or newer is required", version.0, version.1));
        }
        Ok(Self { functions, version, found })
    }

    /// Its version, major and minor.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The path or name that was opened.
    pub fn found(&self) -> &str {
        &self.found
    }

    /// The compile target that a device of this compute capability can run.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] if the device is older than NVRTC's oldest target; [`CudaError::NoNvrtc`] if NVRTC
    /// does not list its targets.
    pub fn target(&self, capability: (u32, u32)) -> Result<CompileTarget, CudaError> {
        let supported = self.supported()?;
        let number = |(major, minor): (u32, u32)| major * 10 + minor;
        if supported.contains(&number(capability)) {
            return Ok(CompileTarget::Cubin(capability.0, capability.1));
        }
        match supported.iter().rev().find(|known| **known < number(capability)) {
            Some(older) => Ok(CompileTarget::Ptx(older / 10, older % 10)),
            None => Err(CudaError::Unsupported(format!(
                "NVRTC {}.{} ({}) does not compile for compute capability {}.{}: the oldest it knows is {}",
                self.version.0,
                self.version.1,
                self.found,
                capability.0,
                capability.1,
                supported.first().map_or("none".to_owned(), |oldest| format!(
                    "{}.{}",
                    oldest / 10,
                    oldest % 10
                )),
            ))),
        }
    }

    /// Compute capabilities as numbers, 90 for 9.0.
    fn supported(&self) -> Result<BTreeSet<u32>, CudaError> {
        let mut count = 0;
        // SAFETY: writes one int.
        self.must(unsafe { (self.functions.supported_count)(&mut count) }, "listing its architectures")?;
        let mut list = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: writes as many ints as were just counted.
        self.must(unsafe { (self.functions.supported)(list.as_mut_ptr()) }, "listing its architectures")?;
        Ok(list.into_iter().filter_map(|architecture| u32::try_from(architecture).ok()).collect())
    }

    /// Compiles a source. `options` come after `-arch`.
    ///
    /// # Errors
    /// [`CudaError::Compile`], with NVRTC's log; [`CudaError::NoNvrtc`] if NVRTC itself does not work.
    pub fn compile(
        &self,
        source: &KernelSource<'_>,
        target: CompileTarget,
        options: &[&str],
    ) -> Result<Vec<u8>, CudaError> {
        let architecture = format!("-arch={}", target.name());
        // Since 12.9 NVRTC caches its output in the driver's cache. It gets there by an undocumented function table of
        // the loaded libcuda, and crashes if there is none. This crate has its own cache for its kernels.
        let no_cache = (self.version >= (12, 9)).then_some("--no-cache");
        let options = std::iter::once(architecture.as_str()).chain(no_cache).chain(options.iter().copied());
        let options = options.map(c_string).collect::<Result<Vec<_>, _>>()?;
        let names = source.headers.iter().map(|(name, _)| c_string(name)).collect::<Result<Vec<_>, _>>()?;
        let texts = source.headers.iter().map(|(_, text)| c_string(text)).collect::<Result<Vec<_>, _>>()?;
        let (text, name) = (c_string(source.text)?, c_string(source.name)?);
        let pointers = |strings: &[CString]| strings.iter().map(|string| string.as_ptr()).collect::<Vec<_>>();
        let (header_names, header_texts, option_pointers) =
            (pointers(&names), pointers(&texts), pointers(&options));

        let mut program = std::ptr::null_mut();
        // SAFETY: the strings end in zero and live until the call returns, which copies them. The lists have as many
        // entries as the count says.
        let result = unsafe {
            (self.functions.create)(
                &mut program,
                text.as_ptr(),
                name.as_ptr(),
                source.headers.len() as c_int,
                header_texts.as_ptr(),
                header_names.as_ptr(),
            )
        };
        self.must(result, "making a program")?;
        let program = OpenProgram { nvrtc: self, program };
        // SAFETY: the program was just made; the options live until the call returns.
        let result = unsafe {
            (self.functions.compile)(program.program, options.len() as c_int, option_pointers.as_ptr())
        };
        if result != 0 {
            let log = program.read(self.functions.log_size, self.functions.log).unwrap_or_default();
            let log = String::from_utf8_lossy(log.strip_suffix(b"\0").unwrap_or(&log)).trim().to_owned();
            return Err(CudaError::Compile {
                file: source.name,
                architecture: target.name(),
                nvrtc: format!("{}.{} ({})", self.version.0, self.version.1, self.found),
                log: if log.is_empty() {
                    self.describe(result)
                } else {
                    format!("{}\n{log}", self.describe(result))
                },
            });
        }
        match target {
            CompileTarget::Cubin(..) => program.read(self.functions.cubin_size, self.functions.cubin),
            CompileTarget::Ptx(..) => program.read(self.functions.ptx_size, self.functions.ptx),
        }
    }

    fn describe(&self, result: c_int) -> String {
        // SAFETY: returns a constant text for any number.
        let text = unsafe { (self.functions.error_string)(result) };
        if text.is_null() {
            return format!("nvrtcResult {result}");
        }
        // SAFETY: not null, and a constant that ends in zero.
        format!("{} ({result})", unsafe { CStr::from_ptr(text) }.to_string_lossy())
    }

    fn must(&self, result: c_int, doing: &str) -> Result<(), CudaError> {
        if result == 0 {
            return Ok(());
        }
        Err(CudaError::NoNvrtc {
            reason: format!("NVRTC ({}) failed at {doing}: {}", self.found, self.describe(result)),
        })
    }
}

struct OpenProgram<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl OpenProgram<'_> {
    /// One of the outputs: its size is asked first.
    fn read(
        &self,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        read: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, CudaError> {
        let mut bytes = 0;
        // SAFETY: writes one size; the program is open.
        self.nvrtc.must(unsafe { size(self.program, &mut bytes) }, "querying the size of its output")?;
        let mut output = vec![0u8; bytes];
        // SAFETY: writes as many bytes as it just reported.
        self.nvrtc.must(unsafe { read(self.program, output.as_mut_ptr().cast()) }, "reading its output")?;
        Ok(output)
    }
}

impl Drop for OpenProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once. The only error is an invalid program, which it is not.
        let _ = unsafe { (self.nvrtc.functions.destroy)(&mut self.program) };
    }
}

fn c_string(text: &str) -> Result<CString, CudaError> {
    CString::new(text)
        .map_err(|_| CudaError::Refused("a kernel's source or option contains a zero byte".to_owned()))
}

/// The library's file: `path` itself, or a file in the folder `path`.
fn library_in(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_owned());
    }
    let folders =
        WITHIN.iter().map(|within| if *within == "." { path.to_owned() } else { path.join(within) });
    folders.flat_map(|folder| NAMES.map(|name| folder.join(name))).find(|file| file.is_file())
}

/// Loads the library of built-in functions next to NVRTC. NVRTC opens it by its bare name and has no run path, so it
/// gets the loaded one.
fn preload_builtins(folder: &Path) -> Result<(), String> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("libnvrtc-builtins.so"))
        // A toolkit has one file and two links to it.
        .filter_map(|entry| entry.path().canonicalize().ok())
        // Opening a pipe would wait.
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    files.dedup();
    if files.is_empty() {
        return Err(format!("{} has no libnvrtc-builtins.so", folder.display()));
    }
    for file in files {
        // SAFETY: the library's initialisers are NVIDIA's and may run at any time.
        let library = unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_GLOBAL) }
            .map_err(|error| loader_said(&error))?;
        // Kept open for NVRTC, which never closes it either.
        std::mem::forget(library);
    }
    Ok(())
}

fn folders_before_the_loader() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    // …/site-packages/torch/lib/libtorch_cpu.so: the wheels of the same installation are next to `torch`.
    let mut torches: Vec<PathBuf> = mapped("libtorch_cpu.so")
        .and_then(|library| Some(library.parent()?.parent()?.to_owned()))
        .into_iter()
        .chain(libtorch::find(None, AskPython::No).ok().map(|torch| torch.root().to_owned()))
        .chain(std::env::var_os("LIBTORCH").filter(|path| !path.is_empty()).map(PathBuf::from))
        .collect();
    torches.dedup();
    for torch in torches {
        // A libtorch archive has NVRTC in its own `lib`, wheels have it in the folder of all packages.
        folders.extend(torch.parent().map(Path::to_owned));
        folders.push(torch);
    }
    folders.extend(toolkit::folders());
    folders
}

/// The path of a library that this process has loaded, by the beginning of its file name.
fn mapped(name: &str) -> Option<PathBuf> {
    let maps = uva_mem::files::read_kernel_text("/proc/self/maps").ok()?;
    mapped_in(&maps, name)
}

fn mapped_in(maps: &str, name: &str) -> Option<PathBuf> {
    maps.lines()
        .filter_map(|line| Some(&line[line.find('/')?..]))
        .find(|path| path.rsplit('/').next().is_some_and(|file| file.starts_with(name)))
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_was_named_and_has_none_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = Nvrtc::find(Some(folder.path())).unwrap_err();
        assert!(matches!(error, CudaError::NoNvrtc { .. }));
        let text = error.to_string();
        assert!(text.contains(&folder.path().display().to_string()), "{text}");
        assert!(text.contains("`nvrtc`"), "{text}");
    }

    #[test]
    fn a_file_that_is_not_a_library_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libnvrtc.so.13");
        std::fs::write(&file, b"not a library").unwrap();
        let text = Nvrtc::find(Some(folder.path())).unwrap_err().to_string();
        assert!(text.contains(&file.display().to_string()), "{text}");
        // No builtins next to it: reported too, since they are often forgotten.
        assert!(text.contains("libnvrtc-builtins"), "{text}");
    }

    #[test]
    fn a_library_without_the_functions_is_an_error_that_names_the_first() {
        let libc = mapped("libc.so").expect("this test runs with a C library");
        let text = Nvrtc::find(Some(&libc)).unwrap_err().to_string();
        assert!(text.contains("nvrtcVersion"), "{text}");
    }

    #[test]
    fn the_library_is_found_in_every_known_layout() {
        for within in WITHIN {
            let folder = tempfile::tempdir().unwrap();
            let lib = folder.path().join(within);
            std::fs::create_dir_all(&lib).unwrap();
            std::fs::write(lib.join("libnvrtc.so.12"), b"").unwrap();
            std::fs::write(lib.join("libnvrtc.so.13"), b"").unwrap();
            let found = library_in(folder.path()).unwrap();
            assert_eq!(found.canonicalize().unwrap(), lib.join("libnvrtc.so.13").canonicalize().unwrap());
        }
    }

    #[test]
    fn a_loaded_library_is_recognised_by_the_beginning_of_its_name() {
        let maps = "7f00-7f01 r-xp 0 fe:00 1  /x y/torch/lib/libtorch_cpu.so\n7f02-7f03 rw-p 0 00:00 0 \n";
        assert_eq!(mapped_in(maps, "libtorch_cpu.so"), Some("/x y/torch/lib/libtorch_cpu.so".into()));
        assert_eq!(mapped_in(maps, "libtorch.so"), None);
    }
}
