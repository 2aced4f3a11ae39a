//! A process that gets no memory: it ends with a line that says so.
//!
//! Where memory is missing, Rust and C++ call `abort`. The kernel then reports a SIGABRT, and libstdc++ no more than
//! `std::bad_alloc`. A program whose allocator is [`NotedAllocator`] and that calls [`end_with_a_line`] ends with the bytes
//! that it asked for, its limits, and a remedy.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::{self, Write};
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// The exit code of a role that got no memory, by which its launcher recognises it: the number of `ENOMEM`.
pub const OUT_OF_MEMORY: u8 = 12;

/// The last request that the system refused, and the thread that made it. They pair with nothing: the thread that reads them
/// in a signal handler is the one that wrote them.
static REFUSED_BYTES: AtomicUsize = AtomicUsize::new(0);
static REFUSED_THREAD: AtomicI32 = AtomicI32::new(0);

/// The system's allocator, which notes the last request that was refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotedAllocator;

/// Notes the request if it was refused.
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

/// The limits on this process's memory, each with the command that raises it: sentences that follow a message. Nothing
/// where there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    address_space: Option<u64>,
    data: Option<u64>,
}

impl MemoryLimits {
    /// Those in force now.
    #[must_use]
    pub fn now() -> Self {
        Self { address_space: getrlimit(Resource::As).current, data: getrlimit(Resource::Data).current }
    }

    /// Whether there is one.
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

/// What the handler says and does, fixed when it is installed.
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

/// From now on, where this process aborts for want of memory, it ends with this exit code. A line on stderr has the bytes that
/// it asked for, if Rust's allocator knows them, the limits in force, and `remedy`: a sentence, or nothing. Any other abort
/// ends it by SIGABRT. The first call decides.
///
/// For programs, early in `main`: the handling of a signal belongs to the program, not to a library in it.
///
/// # Errors
/// The system's, if it refuses the handler.
pub fn end_with_a_line(remedy: &'static str, code: u8) -> io::Result<()> {
    // SAFETY: the name is a C string, and the default handle searches the libraries that are loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_current_exception_type".as_ptr()) };
    // SAFETY: a function of that name has this type by the Itanium C++ ABI, which every C++ library here has.
    let exception_type =
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, ExceptionType>(found) });
    if ENDING.set(Ending { remedy, code, exception_type }).is_err() {
        return Ok(());
    }
    let handler: extern "C" fn(c_int) = on_abort;
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros are a `sigaction`: no handler, no flags, an empty mask.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = handler as usize;
    // On the thread's alternate stack where it has one, as Rust's own handlers are.
    action.sa_flags = libc::SA_ONSTACK;
    // SAFETY: the action is complete, and its handler calls nothing that a signal handler must not call.
    match unsafe { libc::sigaction(libc::SIGABRT, action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Ending {
    /// Whether this thread ends of a C++ exception about memory.
    fn is_of_bad_alloc(&self) -> bool {
        let Some(exception_type) = self.exception_type else { return false };
        // SAFETY: the function reads what its thread handles, and may be called at any time.
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
    // A line that is too long is cut.
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

/// Text in a buffer of its own: a handler must not allocate.
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

    /// As every program of ours has it.
    #[global_allocator]
    static ALLOCATOR: NotedAllocator = NotedAllocator;

    /// What the process does that the test below starts of itself.
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
