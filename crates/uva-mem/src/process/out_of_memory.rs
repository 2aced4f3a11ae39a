//! Out-of-memory handling: the process ends with an error message.
//!
//! Without memory, Rust and C++ call `abort`. The kernel then reports a SIGABRT, and libstdc++ only `std::bad_alloc`. A
//! program that uses [`NotedAllocator`] and calls [`end_with_a_line`] reports the requested bytes, its limits, and a
//! remedy.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::{self, Write};
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// The exit code of a role that ran out of memory, recognised by its launcher: the number of `ENOMEM`.
pub const OUT_OF_MEMORY: u8 = 12;

/// The last request that the system refused, and the thread that made it. Relaxed: the thread that reads them in a
/// signal handler is the one that wrote them.
static REFUSED_BYTES: AtomicUsize = AtomicUsize::new(0);
static REFUSED_THREAD: AtomicI32 = AtomicI32::new(0);

/// The system's allocator, which records the last refused request.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotedAllocator;

/// Records the request if it was refused.
fn noted(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        REFUSED_BYTES.store(bytes, Ordering::Relaxed);
        REFUSED_THREAD.store(this_thread(), Ordering::Relaxed);
    }
    memory
}

fn this_thread() -> i32 {
    // SAFETY: `gettid` has no preconditions, and may be called in a signal handler.
    unsafe { libc::gettid() }
}

// SAFETY: every method is that of the system's allocator, whose result is passed on.
unsafe impl GlobalAlloc for NotedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        noted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { System.realloc(memory, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The limits on this process's memory, each with the command that raises it. Formatted as sentences that follow a
/// message; empty without limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    address_space: Option<u64>,
    data: Option<u64>,
}

impl MemoryLimits {
    /// Returns the current limits.
    #[must_use]
    pub fn now() -> Self {
        Self { address_space: getrlimit(Resource::As).current, data: getrlimit(Resource::Data).current }
    }

    /// Whether there is a limit.
    #[must_use]
    pub fn are_there(&self) -> bool {
        self.address_space.is_some() || self.data.is_some()
    }
}

impl fmt::Display for MemoryLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (limit, name, option) in [
            (self.address_space, "the address space is limited to", "RLIMIT_AS: raise it with `ulimit -v`"),
            (self.data, "the data segment is limited to", "RLIMIT_DATA: raise it with `ulimit -d`"),
        ] {
            if let Some(bytes) = limit {
                write!(f, "; {name} {} MiB ({option})", bytes >> 20)?;
            }
        }
        Ok(())
    }
}

/// The handler's configuration, fixed when it is installed.
struct Ending {
    remedy: &'static str,
    code: u8,
    /// `__cxa_current_exception_type` of libstdc++; `None` in a process without it.
    exception_type: Option<ExceptionType>,
}

/// The type of the C++ exception that is handled at present: a `std::type_info`, or null.
type ExceptionType = unsafe extern "C" fn() -> *const TypeInfo;

/// The beginning of a `std::type_info`, by the Itanium C++ ABI.
#[repr(C)]
struct TypeInfo {
    functions: *const c_void,
    name: *const c_char,
}

static ENDING: OnceLock<Ending> = OnceLock::new();

/// Installs a handler that ends this process with exit code `code` if it aborts without memory. A line on stderr has
/// the requested bytes, if Rust's allocator has recorded them, the current limits, and `remedy`: a sentence, or an
/// empty string. Any other abort kills the process with SIGABRT. Only the first call has an effect.
///
/// For programs, early in `main`: signal handling is up to the program, not to a library.
///
/// # Errors
/// If the system call fails.
pub fn end_with_a_line(remedy: &'static str, code: u8) -> io::Result<()> {
    // SAFETY: the name is a C string, and the default handle searches the loaded libraries.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_current_exception_type".as_ptr()) };
    // SAFETY: a function of that name has this type by the Itanium C++ ABI, which every C++ library here has.
    let exception_type =
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, ExceptionType>(found) });
    if ENDING.set(Ending { remedy, code, exception_type }).is_err() {
        return Ok(());
    }
    let handler: extern "C" fn(c_int) = on_abort;
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros are a valid `sigaction`: no handler, no flags, an empty mask.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = handler as usize;
    // Uses the thread's alternate stack, if any, as Rust's own handlers do.
    action.sa_flags = libc::SA_ONSTACK;
    // SAFETY: the action is complete, and its handler calls nothing that a signal handler must not call.
    match unsafe { libc::sigaction(libc::SIGABRT, action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Ending {
    /// Whether this thread aborts because of a C++ exception about memory.
    fn is_of_bad_alloc(&self) -> bool {
        let Some(exception_type) = self.exception_type else { return false };
        // SAFETY: the function reads the exception that its thread handles, and may be called at any time.
        let found = unsafe { exception_type() };
        if found.is_null() {
            return false;
        }
        // SAFETY: a type's information and its name are never freed.
        let name = unsafe { CStr::from_ptr((*found).name) }.to_bytes();
        [b"bad_alloc".as_slice(), b"OutOfMemory"]
            .iter()
            .any(|part| name.windows(part.len()).any(|window| window == *part))
    }
}

extern "C" fn on_abort(_: c_int) {
    let of_rust = REFUSED_THREAD.load(Ordering::Relaxed) == this_thread();
    let ending = ENDING.get().filter(|ending| of_rust || ending.is_of_bad_alloc());
    let Some(ending) = ending else {
        // SAFETY: as in `end_with_a_line`. `abort` raises the signal again, which ends the process.
        unsafe { libc::signal(libc::SIGABRT, libc::SIG_DFL) };
        return;
    };
    let mut line = Line { text: [0; 1024], length: 0 };
    // A line that is too long is truncated.
    let _ = match of_rust {
        true => write!(
            line,
            "uvatrain: out of memory: {} bytes were refused",
            REFUSED_BYTES.load(Ordering::Relaxed)
        ),
        false => write!(line, "uvatrain: out of memory in libtorch"),
    };
    let _ = write!(line, "{}{}", MemoryLimits::now(), ending.remedy);
    let _ = line.write_char('\n');
    // SAFETY: `write` and `_exit` may be called in a handler, and the buffer outlives the call.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.text.as_ptr().cast(), line.length);
        libc::_exit(i32::from(ending.code))
    }
}

/// Text in a fixed buffer, since a handler must not allocate.
struct Line {
    text: [u8; 1024],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.text.len() - self.length;
        let bytes = &text.as_bytes()[..text.len().min(room)];
        self.text[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
        if bytes.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// The same allocator as in all programs of this project.
    #[global_allocator]
    static ALLOCATOR: NotedAllocator = NotedAllocator;

    /// Environment variable with the action of the process that the test below starts from its own executable.
    const DEED: &str = "UVA_MEM_TEST_ABORT";

    #[test]
    fn a_process_without_memory_says_so_and_another_abort_is_a_signal() {
        if let Some(deed) = std::env::var_os(DEED) {
            end_with_a_line("; take less", 43).unwrap();
            if deed == "allocate" {
                std::hint::black_box(vec![1_u8; isize::MAX as usize]);
            }
            // A refused request of another thread does not explain an abort.
            let _ = std::thread::spawn(|| Vec::<u8>::new().try_reserve_exact(isize::MAX as usize)).join();
            std::process::abort();
        }
        let this =
            "process::out_of_memory::tests::a_process_without_memory_says_so_and_another_abort_is_a_signal";
        let run = |deed: &str| {
            let program = std::env::current_exe().unwrap();
            Command::new(program).args(["--exact", this, "--nocapture"]).env(DEED, deed).output().unwrap()
        };
        let ended = run("allocate");
        let told = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(43), "{told}");
        let line = told.lines().last().unwrap_or_default();
        let expected = format!("uvatrain: out of memory: {} bytes were refused", isize::MAX);
        assert!(line.starts_with(&expected) && line.ends_with("; take less"), "{told}");
        assert_eq!(run("abort").status.signal(), Some(libc::SIGABRT));
    }

    #[test]
    fn limits_are_named_with_the_command_that_raises_them() {
        let limits = MemoryLimits { address_space: Some(50 << 20), data: None };
        assert_eq!(
            limits.to_string(),
            "; the address space is limited to 50 MiB (RLIMIT_AS: raise it with `ulimit -v`)"
        );
        assert_eq!(MemoryLimits { address_space: None, data: None }.to_string(), "");
    }
}
