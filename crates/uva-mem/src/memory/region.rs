//! A memory region shared by processes, or by the threads of one process.
//!
//! For processes it is a sealed memfd, mapped. A memfd has no name, so nothing remains after a SIGKILL: the memory is
//! freed with the last descriptor and mapping. Its size is sealed, so no peer can shrink it under a mapping (which
//! would be a SIGBUS). For threads it is anonymous memory, which needs no descriptor and gets 2 MiB pages even on
//! machines whose memfds do not.

use std::ffi::c_void;
use std::io;
use std::mem::{align_of, size_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::memory::fork_guard::{Backing, ForkGuard};

const BASE_PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;
/// The kernel's settings of transparent huge pages.
const ANONYMOUS: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const MEMFDS: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The file system of memfds on reserved huge pages (`HUGETLBFS_MAGIC` of `linux/magic.h`).
const HUGETLBFS: u64 = 0x9584_58f6;

/// The requested pages of a new region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Base pages, with a hint to the kernel to use huge pages where possible.
    #[default]
    Normal,
    /// Reserved 2 MiB pages (`MFD_HUGETLB`). Falls back to [`Pages::Normal`] on a machine without reserved pages.
    Hugetlb,
}

/// The pages of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// 4 KiB pages.
    Base,
    /// 4 KiB pages that the kernel may merge into huge pages.
    TransparentHuge,
    /// Reserved 2 MiB pages.
    Hugetlb,
}

/// Why a region cannot be created or mapped.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// A system call failed.
    #[error("shared region {name} of {bytes} bytes: {doing} failed: {source}")]
    System {
        /// The region's name.
        name: String,
        /// Its size in bytes.
        bytes: usize,
        /// The call that failed.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A received descriptor is not the expected region.
    #[error("shared region {name}: {what}")]
    Mismatch {
        /// The region's name.
        name: String,
        /// The difference, with both values.
        what: String,
    },
}

/// Shared memory, mapped read-write for the lifetime of this value: a sealed memfd, or memory of this process's
/// threads.
///
/// Access goes through raw pointers or atomics only, since other processes or threads write the bytes too. A protocol
/// such as [the slot ring](crate::ring) decides which side may access which bytes, and when.
///
/// In a forked child the addresses stay reserved without access: reading them is a SIGSEGV.
#[derive(Debug)]
pub struct SharedRegion {
    name: String,
    /// `None` if only the threads of this process share the region.
    fd: Option<OwnedFd>,
    base: *mut u8,
    bytes: usize,
    mapped: usize,
    pages: PageKind,
    /// `None` only during drop.
    guard: Option<ForkGuard>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and lives until `drop`. The type itself gives out only a
// raw pointer and references to atomics. Neither can race without further `unsafe`.
unsafe impl Send for SharedRegion {}
// SAFETY: as above; every change by a method goes through atomics.
unsafe impl Sync for SharedRegion {}

impl SharedRegion {
    /// Creates a zeroed region of `bytes` bytes (at least one) on [normal pages](Pages::Normal).
    ///
    /// `name` appears in `/proc/PID/maps` and in messages; it need not be unique.
    ///
    /// # Errors
    /// [`RegionError::System`] if the system refuses the descriptor, the size, the seals or the mapping.
    pub fn create(name: &str, bytes: usize) -> Result<Self, RegionError> {
        Self::create_with(name, bytes, Pages::Normal)
    }

    /// Creates a zeroed region of `bytes` bytes on the requested pages; [`SharedRegion::pages`] returns the actual
    /// kind.
    ///
    /// # Errors
    /// As [`SharedRegion::create`].
    pub fn create_with(name: &str, bytes: usize, pages: Pages) -> Result<Self, RegionError> {
        if pages == Pages::Hugetlb {
            // The kernel grants the descriptor and its size even with no huge page reserved; only the mapping fails. So
            // every failure here means that no huge page is available; base pages work as well, but slower.
            let flags =
                MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
            if let Ok(region) = Self::create_from(name, bytes, flags, HUGE_PAGE) {
                return Ok(region);
            }
        }
        Self::create_from(name, bytes, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING, BASE_PAGE)
    }

    /// Creates a zeroed region of `bytes` bytes (at least one) for the threads of this process, on transparent 2 MiB
    /// pages where available.
    ///
    /// # Errors
    /// [`RegionError::System`] if the system refuses the mapping.
    pub fn for_threads(name: &str, bytes: usize) -> Result<Self, RegionError> {
        let size = Self::whole_pages(name, bytes, BASE_PAGE)?;
        // A ring has space for the largest possible batch, most of which stays untouched. Without NORESERVE the kernel
        // would refuse a mapping larger than memory; for a memfd it only counts touched pages.
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice, so no Rust object lives there.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), size, protection, flags) }
            .map_err(|e| Self::system(name, bytes, "mmap", e))?;
        Ok(Self::mapped(name, None, base, bytes, size, huge_pages(ANONYMOUS)))
    }

    /// `bytes` rounded up to whole pages.
    fn whole_pages(name: &str, bytes: usize, page: usize) -> Result<usize, RegionError> {
        round_up(bytes, page)
            .filter(|&size| bytes > 0 && isize::try_from(size).is_ok())
            .ok_or_else(|| Self::system(name, bytes, "sizing", rustix::io::Errno::INVAL))
    }

    fn create_from(name: &str, bytes: usize, flags: MemfdFlags, page: usize) -> Result<Self, RegionError> {
        let system = |doing| move |e: rustix::io::Errno| Self::system(name, bytes, doing, e);
        let size = Self::whole_pages(name, bytes, page)?;
        let fd = rustix::fs::memfd_create(name, flags).map_err(system("memfd_create"))?;
        rustix::fs::ftruncate(&fd, size as u64).map_err(system("ftruncate"))?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(system("sealing"))?;
        Self::map(name, fd, bytes, size, page)
    }

    /// Maps a region that another process created with the same `bytes`.
    ///
    /// # Errors
    /// [`RegionError::Mismatch`] unless `fd` is a memfd of that size whose size is sealed: so that no peer can remove
    /// pages later. [`RegionError::System`] if the mapping is refused.
    pub fn from_fd(name: &str, fd: OwnedFd, bytes: usize) -> Result<Self, RegionError> {
        let mismatch = |what: String| RegionError::Mismatch { name: name.to_owned(), what };
        let seals = rustix::fs::fcntl_get_seals(&fd)
            .map_err(|e| mismatch(format!("the descriptor that was handed over is not a memfd ({e})")))?;
        if !seals.contains(SEALS) {
            return Err(mismatch(format!("its size is not sealed (seals {seals:?}, needed {SEALS:?})")));
        }
        let stat = rustix::fs::fstat(&fd).map_err(|e| Self::system(name, bytes, "fstat", e))?;
        // The block size does not say it: with transparent huge pages for memfds it is that of a huge page too.
        let system = rustix::fs::fstatfs(&fd).map_err(|e| Self::system(name, bytes, "fstatfs", e))?;
        let page = if system.f_type as u64 == HUGETLBFS { HUGE_PAGE } else { BASE_PAGE };
        let size = round_up(bytes, page)
            .filter(|&size| bytes > 0 && u64::try_from(stat.st_size) == Ok(size as u64))
            .ok_or_else(|| mismatch(format!("it has {} bytes where {bytes} were agreed", stat.st_size)))?;
        Self::map(name, fd, bytes, size, page)
    }

    fn map(name: &str, fd: OwnedFd, bytes: usize, size: usize, page: usize) -> Result<Self, RegionError> {
        // SAFETY: a fresh mapping at an address of the kernel's choice, so no Rust object lives there. The file's size
        // is sealed to at least `size` bytes, so every page of it exists for as long as the mapping.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                size,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &fd,
                0,
            )
        }
        .map_err(|e| Self::system(name, bytes, "mmap", e))?;
        let transparent = page == BASE_PAGE && huge_pages(MEMFDS);
        let mut region = Self::mapped(name, Some(fd), base, bytes, size, transparent);
        if page == HUGE_PAGE {
            region.pages = PageKind::Hugetlb;
        }
        Ok(region)
    }

    /// Wraps a fresh mapping; with `transparent`, requests huge pages.
    fn mapped(
        name: &str,
        fd: Option<OwnedFd>,
        base: *mut c_void,
        bytes: usize,
        mapped: usize,
        transparent: bool,
    ) -> Self {
        let backing = if fd.is_some() { Backing::Shared } else { Backing::Private };
        let guard = Some(ForkGuard::new(base.cast(), mapped, backing));
        let pages = PageKind::Base;
        let mut region = Self { name: name.to_owned(), fd, base: base.cast(), bytes, mapped, pages, guard };
        if transparent && region.advise(Advice::LinuxHugepage).is_ok() {
            region.pages = PageKind::TransparentHuge;
        }
        region
    }

    /// Allocates every page now, so that a lack of memory is an error here instead of a kill later.
    ///
    /// # Errors
    /// [`RegionError::System`] if the pages cannot be allocated (or the kernel is older than 5.14).
    pub fn populate(&self) -> Result<(), RegionError> {
        self.advise(Advice::LinuxPopulateWrite)
            .map_err(|e| Self::system(&self.name, self.bytes, "populating", e))
    }

    fn advise(&self, advice: Advice) -> rustix::io::Result<()> {
        // SAFETY: the range is exactly our own mapping. Neither advice used in this file (HUGEPAGE, POPULATE_WRITE)
        // changes a byte of it.
        unsafe { rustix::mm::madvise(self.base.cast::<c_void>(), self.mapped, advice) }
    }

    fn system(name: &str, bytes: usize, doing: &'static str, errno: rustix::io::Errno) -> RegionError {
        RegionError::System { name: name.to_owned(), bytes, doing, source: errno.into() }
    }

    /// The region's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The memfd, to hand over to another process; `None` for a region [for threads](Self::for_threads).
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// The first byte; page-aligned.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base
    }

    /// The requested number of bytes. The mapping is rounded up to whole pages.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Always false: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The pages of the region.
    pub fn pages(&self) -> PageKind {
        self.pages
    }

    /// A typed view of the bytes at `offset`.
    ///
    /// # Panics
    /// If `offset` is misaligned for `T` or the value would end outside the region.
    ///
    /// # Safety
    /// `T` must consist of atomics only (any bit pattern valid, changed through `&T` only). While the region lives, no
    /// process may access these bytes in any other way.
    pub(crate) unsafe fn at<T>(&self, offset: usize) -> &T {
        let end = offset.checked_add(size_of::<T>());
        assert!(end.is_some_and(|end| end <= self.bytes), "a view outside region {}", self.name);
        assert_eq!(offset % align_of::<T>(), 0, "a misaligned view into region {}", self.name);
        // SAFETY: in bounds and aligned (just checked; the base is page-aligned), and mapped as long as `self` lives.
        // By the caller's promise it consists of atomics, so other processes' writes are not data races.
        unsafe { &*self.base.add(offset).cast::<T>() }
    }
}

impl Drop for SharedRegion {
    fn drop(&mut self) {
        // The guard is dropped before the addresses become free.
        drop(self.guard.take());
        // SAFETY: our own mapping with its own size, also in a forked child, where it is mapped without access; every
        // reference into it borrows `self` and is gone. A failure would mean that the range was wrong, which cannot be
        // repaired.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.mapped) };
    }
}

fn round_up(bytes: usize, page: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(page)
}

/// Whether the kernel provides transparent huge pages for memory of this kind on request. `madvise` succeeds even if it
/// never does.
fn huge_pages(setting: &str) -> bool {
    crate::files::read_kernel_text(setting)
        .is_ok_and(|text| !text.contains("[never]") && !text.contains("[deny]") && text.contains('['))
}
