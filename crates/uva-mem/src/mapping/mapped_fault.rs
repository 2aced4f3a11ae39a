//! Truncated mapped files: a process that reads beyond the new end exits with the file's name.
//!
//! The kernel sends SIGBUS for such a read, which kills a process without naming the file. This module keeps a list of
//! mapped files, in which the handler of [`end_with_the_files_name`] finds the address.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Maximum number of listed mappings. A read beyond the end of an unlisted mapping is a plain SIGBUS. A dataset has a
/// dozen files, a hop set one for each hop.
const LISTED: usize = 512;

static MAPPINGS: [Mapping; LISTED] = [const { Mapping::unused() }; LISTED];

/// File names, which live as long as the process: a signal handler may read one while another thread unmaps its file.
/// The lock also protects changes of `MAPPINGS`.
static NAMES: Mutex<BTreeSet<&'static CStr>> = Mutex::new(BTreeSet::new());

/// A mapped file, in a form that a signal handler can read.
struct Mapping {
    /// The address of the first byte; 0 for an unused entry. Stored last with Release, in `List::add`, and loaded first
    /// with Acquire, in `file_at`: the other two fields then belong to this mapping.
    start: AtomicUsize,
    end: AtomicUsize,
    name: AtomicPtr<c_char>,
}

impl Mapping {
    const fn unused() -> Self {
        Self {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            name: AtomicPtr::new(std::ptr::null_mut()),
        }
    }
}

/// A guard for a mapping's entry in the list.
#[derive(Debug)]
pub(crate) struct MappingEntry(Option<usize>);

impl MappingEntry {
    /// Lists the mapping of `path` that has these bytes. Must be dropped before the bytes are unmapped.
    pub(crate) fn new(path: &Path, start: *const u8, bytes: usize) -> Self {
        let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Self(None) };
        let mut names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let unused = MAPPINGS.iter().position(|mapping| mapping.start.load(Ordering::Relaxed) == 0);
        let Some(at) = unused.filter(|_| bytes > 0) else { return Self(None) };
        let name = match names.get(name.as_c_str()) {
            Some(name) => name,
            None => {
                let name: &'static CStr = Box::leak(name.into_boxed_c_str());
                names.insert(name);
                name
            }
        };
        let mapping = &MAPPINGS[at];
        mapping.end.store(start as usize + bytes, Ordering::Relaxed);
        mapping.name.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
        mapping.start.store(start as usize, Ordering::Release);
        Self(Some(at))
    }
}

impl Drop for MappingEntry {
    fn drop(&mut self) {
        if let Some(at) = self.0 {
            let _names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            MAPPINGS[at].start.store(0, Ordering::Release);
        }
    }
}

/// The file that is mapped at an address. Safe in a signal handler.
fn file_at(address: usize) -> Option<&'static CStr> {
    MAPPINGS.iter().find_map(|mapping| {
        let start = mapping.start.load(Ordering::Acquire);
        if start == 0 || !(start..mapping.end.load(Ordering::Relaxed)).contains(&address) {
            return None;
        }
        // SAFETY: the name of a listed mapping was stored before its `start` (Acquire above), and names are never
        // freed.
        Some(unsafe { CStr::from_ptr(mapping.name.load(Ordering::Relaxed)) })
    })
}

/// Installs a handler that ends this process with exit code 1 if a thread reads a mapped file beyond its end. A line on
/// stderr names the file. Any other SIGBUS kills the process with that signal.
///
/// For programs, early in `main`: signal handling is up to the program, not to a library.
///
/// # Errors
/// If the system call fails.
pub fn end_with_the_files_name() -> io::Result<()> {
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_bus_error;
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros are a valid `sigaction`: no handler, no flags, an empty mask.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = handler as usize;
    // Uses the thread's alternate stack, if any, as Rust's own handlers do.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the action is complete, and its handler calls nothing that a signal handler must not call.
    match unsafe { libc::sigaction(libc::SIGBUS, action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_bus_error(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    // SAFETY: the kernel passes the signal's information to a handler with SA_SIGINFO, and a SIGBUS has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let Some(name) = file_at(address) else {
        // SAFETY: as in `end_with_the_files_name`. The read is tried again, and ends the process.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
        return;
    };
    // Several threads may read such pages; the first one prints the line. Relaxed: there is no other data to order.
    if TOLD.swap(true, Ordering::Relaxed) {
        loop {
            // SAFETY: `pause` may be called in a handler. The first thread ends the process.
            unsafe { libc::pause() };
        }
    }
    let parts = [
        b"uvatrain: ".as_slice(),
        name.to_bytes(),
        b": it was made shorter while it was mapped, or the disk cannot read it. Write new files and rename them over \
          the old ones\n",
    ];
    let lines =
        parts.map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    // SAFETY: `writev` and `_exit` may be called in a handler, and the buffers outlive the call.
    unsafe {
        libc::writev(libc::STDERR_FILENO, lines.as_ptr(), lines.len() as c_int);
        libc::_exit(1)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;

    use super::*;
    use crate::{MappedFile, PrivateFile};

    /// Environment variable with the file name, for the process that the test below starts from its own executable.
    const CUT: &str = "UVA_MEM_TEST_CUT";

    /// Truncates the file while it is mapped, and reads beyond its end.
    fn read_behind_the_end(path: &Path, private: bool) -> u8 {
        end_with_the_files_name().unwrap();
        let shorten = || File::options().write(true).open(path).unwrap().set_len(100).unwrap();
        if private {
            let map = PrivateFile::open(path).unwrap();
            shorten();
            // SAFETY: the address is within the mapping.
            unsafe { map.as_ptr().add(9000).read_volatile() }
        } else {
            // Another listed file, which must not be confused with the truncated one.
            let _other = MappedFile::open(&std::env::current_exe().unwrap()).unwrap();
            let map = MappedFile::open(path).unwrap();
            shorten();
            map.bytes()[9000]
        }
    }

    #[test]
    fn a_read_past_the_end_of_a_truncated_file_ends_the_process_by_name() {
        if let Some(path) = std::env::var_os(CUT) {
            let path = Path::new(&path);
            let byte = read_behind_the_end(path, path.extension().is_some());
            panic!("{byte} was read");
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["table", "table.private"] {
            let path = folder.path().join(name);
            std::fs::write(&path, vec![7; 10_000]).unwrap();
            let this = "mapping::mapped_fault::tests::a_read_past_the_end_of_a_truncated_file_ends_the_process_by_name";
            let ended = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", this, "--nocapture"])
                .env(CUT, &path)
                .output()
                .unwrap();
            let told = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(1), "{told}");
            let line = told.lines().last().unwrap_or_default();
            assert!(
                line.starts_with(&format!("uvatrain: {}: it was made shorter", path.display())),
                "{told}"
            );
        }
    }

    #[test]
    fn a_mapping_is_listed_while_it_lives_and_no_address_outside_matches() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; 5000]).unwrap();
        let map = MappedFile::open(&path).unwrap();
        let start = map.bytes().as_ptr() as usize;
        let found = |address| file_at(address).map(|name| name.to_bytes().to_vec());
        let name = path.as_os_str().as_bytes().to_vec();
        assert_eq!(found(start), Some(name.clone()));
        assert_eq!(found(start + 4999), Some(name.clone()));
        // Another mapping may start right after the pages of this one, but not within its last page.
        assert_eq!(found(start + 5000), None);
        drop(map);
        // Another test may have mapped a file at this address by now.
        assert_ne!(found(start), Some(name));
    }
}
