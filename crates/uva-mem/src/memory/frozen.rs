//! Bytes written once and then shared read-only.

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use memmap2::{Advice, Mmap, MmapMut, MmapOptions};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use crate::RegionError;

const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::WRITE).union(SealFlags::SEAL);

/// A memfd that was filled and then sealed. It can no longer be changed, shrunk or grown, so every process that maps it
/// may read it as a slice.
///
/// The memfd has no name: its memory is freed with the last descriptor and mapping.
#[derive(Debug)]
pub struct FrozenBytes {
    fd: OwnedFd,
    map: Mmap,
}

impl FrozenBytes {
    /// Creates `bytes` zeroed bytes (at least one), lets `fill` write them, and seals them. `name` shows in
    /// `/proc/PID/maps` and in messages.
    ///
    /// # Errors
    /// [`RegionError::System`] if the system refuses the descriptor, the memory or the seals.
    pub fn create(name: &str, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Result<Self, RegionError> {
        let system = |doing| move |error| system(name, bytes, doing, error);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags).map_err(|e| system("memfd_create")(e.into()))?;
        rustix::fs::ftruncate(&fd, bytes as u64).map_err(|e| system("ftruncate")(e.into()))?;
        // SAFETY: the descriptor was created above and has not been shared, so no other code writes or truncates it.
        let mut map = unsafe { MmapMut::map_mut(&fd) }.map_err(system("mmap"))?;
        // A child that another thread forks while `fill` runs would keep a writable mapping for as long as it lives.
        // Where the system refuses, `seal` waits for such a child.
        let _ = map.advise(Advice::DontFork);
        // This is a hint: a refusal only affects speed.
        let _ = map.advise(Advice::HugePage);
        // A lack of memory must be an error here, not a SIGBUS later. Old kernels do not support the check, which is
        // then skipped.
        if let Err(error) = populate(&map)
            && error != Errno::INVAL
        {
            return Err(system("populating")(error.into()));
        }
        fill(&mut map);
        // The seal against writing is refused while a writable mapping exists.
        drop(map);
        seal(&fd).map_err(|e| system("sealing")(e.into()))?;
        Self::map(name, fd, bytes)
    }

    /// Maps the memfd that another process created with the same `bytes`.
    ///
    /// # Errors
    /// [`RegionError::Mismatch`] unless `fd` is a memfd of that size, sealed against every change.
    pub fn from_fd(name: &str, fd: OwnedFd, bytes: usize) -> Result<Self, RegionError> {
        let mismatch = |what: String| RegionError::Mismatch { name: name.to_owned(), what };
        let seals = rustix::fs::fcntl_get_seals(&fd)
            .map_err(|e| mismatch(format!("the descriptor that was handed over is not a memfd ({e})")))?;
        if !seals.contains(SEALS) {
            return Err(mismatch(format!("it can still be changed (seals {seals:?}, needed {SEALS:?})")));
        }
        let stat = rustix::fs::fstat(&fd).map_err(|e| system(name, bytes, "fstat", e.into()))?;
        if u64::try_from(stat.st_size) != Ok(bytes as u64) {
            return Err(mismatch(format!("it has {} bytes where {bytes} were agreed", stat.st_size)));
        }
        Self::map(name, fd, bytes)
    }

    fn map(name: &str, fd: OwnedFd, bytes: usize) -> Result<Self, RegionError> {
        // A private mapping: kernels before 6.7 refuse a shared one for a file sealed against writing. The pages are
        // shared anyway, since the mapping is never written. SAFETY: the file is sealed against writing, shrinking and
        // growing (made so above, or checked), so its bytes stay the same for as long as the mapping lives.
        let map = unsafe { MmapOptions::new().map_copy_read_only(&fd) }
            .map_err(|error| system(name, bytes, "mmap", error))?;
        // A forked child may read the mapping too: the bytes never change, and fork copies no page tables of a mapping
        // that was never written.
        Ok(Self { fd, map })
    }

    /// The bytes, page-aligned at their start.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The memfd, to hand over to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Seals `fd`. A child that was forked between the mapping and its advice has the mapping until it calls exec, and the
/// kernel may have references to pages for a moment: the seal is refused until then, for at most a second.
fn seal(fd: &OwnedFd) -> rustix::io::Result<()> {
    let until = Instant::now() + Duration::from_secs(1);
    loop {
        match rustix::fs::fcntl_add_seals(fd, SEALS) {
            Err(Errno::BUSY) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            sealed => return sealed,
        }
    }
}

/// Allocates every page now.
fn populate(map: &MmapMut) -> rustix::io::Result<()> {
    let base = map.as_ptr().cast_mut().cast::<c_void>();
    // SAFETY: the range is exactly the mapping's, and the advice changes no byte of it.
    unsafe { rustix::mm::madvise(base, map.len(), rustix::mm::Advice::LinuxPopulateWrite) }
}

fn system(name: &str, bytes: usize, doing: &'static str, source: std::io::Error) -> RegionError {
    RegionError::System { name: name.to_owned(), bytes, doing, source }
}
