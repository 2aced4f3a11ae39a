//! A memory region that processes share, or the threads of one.
//!
//! For processes it is a sealed memfd, mapped. A memfd has no name anywhere, so nothing stays behind after a SIGKILL:
//! the memory goes with the last descriptor and the last mapping. Its size is sealed, so no peer can shrink it under a
//! mapping (which would be a SIGBUS). Threads need no descriptor, and anonymous memory gets 2 MiB pages on machines
//! whose memfds get none.

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

/// Which pages to ask for when a region is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Base pages; the kernel is asked to use huge ones where it can.
    #[default]
    Normal,
    /// Reserved 2 MiB pages (`MFD_HUGETLB`). Falls back to [`Pages::Normal`] on a machine that has none reserved.
    Hugetlb,
}

/// Which pages a region got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// 4 KiB pages.
    Base,
    /// 4 KiB pages that the kernel agreed to merge into huge ones when it can.
    TransparentHuge,
    /// Reserved 2 MiB pages.
    Hugetlb,
}

/// Why a region cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The system refused a call.
    #[error("shared region {name} of {bytes} bytes: {doing} failed: {source}")]
    System {
        /// The region's name.
        name: String,
        /// Its size in bytes.
        bytes: usize,
        /// The call that failed.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A descriptor that was handed over is not the region it should be.
    #[error("shared region {name}: {what}")]
    Mismatch {
        /// The region's name.
        name: String,
        /// What differs, with both values.
        what: String,
    },
}

/// Memory that others use too, mapped read-write for as long as this value lives: a sealed memfd, or memory of this
/// process's threads alone.
///
/// Access goes through raw pointers or atomics only, since other processes or threads write the bytes too. A protocol such as [the
/// slot ring](crate::ring) decides who may touch which bytes, and when.
///
/// In a forked child its addresses stay reserved without access: reading them is a SIGSEGV.
#[derive(Debug)]
pub struct SharedRegion {
    name: String,
    /// `None` where only the threads of this process share it.
    fd: Option<OwnedFd>,
    base: *mut u8,
    bytes: usize,
    mapped: usize,
    pages: PageKind,
    /// `None` only while it is dropped.
    guard: Option<ForkGuard>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and lives until `drop`. The type itself gives out only a
// raw pointer and references to atomics. Neither can race without further `unsafe`.
unsafe impl Send for SharedRegion {}
// SAFETY: as above; no method changes anything but through atomics.
unsafe impl Sync for SharedRegion {}

impl SharedRegion {
    /// Creates a zeroed region of `bytes` bytes (at least one) on [normal pages](Pages::Normal).
    ///
    /// `name` shows in `/proc/PID/maps` and in messages; it needs not be unique.
    ///
    /// # Errors
    /// [`RegionError::System`] when the system refuses the descriptor, the size, the seals or the mapping.
    pub fn create(name: &str, bytes: usize) -> Result<Self, RegionError> {
        Self::create_with(name, bytes, Pages::Normal)
    }

    /// Creates a zeroed region of `bytes` bytes on the requested pages; [`SharedRegion::pages`] says which it got.
    ///
    /// # Errors
    /// As [`SharedRegion::create`].
    pub fn create_with(name: &str, bytes: usize, pages: Pages) -> Result<Self, RegionError> {
        if pages == Pages::Hugetlb {
            // The kernel grants the descriptor and its size even with no huge page reserved; only the mapping fails. So
            // every failure here means "none to be had", and base pages do as well, only slower.
            let flags =
                MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
            if let Ok(region) = Self::create_from(name, bytes, flags, HUGE_PAGE) {
                return Ok(region);
            }
        }
        Self::create_from(name, bytes, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING, BASE_PAGE)
    }

    /// Creates a zeroed region of `bytes` bytes (at least one) for the threads of this process, on transparent 2 MiB
    /// pages where the system has them.
    ///
    /// # Errors
    /// [`RegionError::System`] when the system refuses the mapping.
    pub fn for_threads(name: &str, bytes: usize) -> Result<Self, RegionError> {
        let size = Self::whole_pages(name, bytes, BASE_PAGE)?;
        // A ring has room for the largest possible batch, most of which no batch touches. Without NORESERVE the kernel
        // would refuse what is larger than memory; a memfd it takes for what was touched.
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
    /// [`RegionError::Mismatch`] unless `fd` is a memfd of that size whose size is sealed: then no peer can take pages
    /// away later. [`RegionError::System`] when the mapping is refused.
    pub fn from_fd(name: &str, fd: OwnedFd, bytes: usize) -> Result<Self, RegionError> {
        let mismatch = |what: String| RegionError::Mismatch { name: name.to_owned(), what };
        let seals = rustix::fs::fcntl_get_seals(&fd)
            .map_err(|e| mismatch(format!("the descriptor that was handed over is not a memfd ({e})")))?;
        if !seals.contains(SEALS) {
            return Err(mismatch(format!("its size is not sealed (seals {seals:?}, needed {SEALS:?})")));
        }
        let stat = rustix::fs::fstat(&fd).map_err(|e| Self::system(name, bytes, "fstat", e))?;
        // hugetlbfs reports its page size as the block size; a memfd on base pages reports a base page.
        let page = if stat.st_blksize as usize == HUGE_PAGE { HUGE_PAGE } else { BASE_PAGE };
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

    /// A region over a fresh mapping; `transparent`: huge pages are asked for.
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

    /// Allocates every page now, so that a lack of memory is an error here and not a kill later.
    ///
    /// # Errors
    /// [`RegionError::System`] when the pages cannot be had (or the kernel is older than 5.14).
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

    /// The name it was created with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The memfd, to hand over to another process; `None` of a region [for threads](Self::for_threads).
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

    /// Never: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Which pages it got.
    pub fn pages(&self) -> PageKind {
        self.pages
    }

    /// A typed view of the bytes at `offset`.
    ///
    /// # Panics
    /// When `offset` is misaligned for `T` or the value would end outside the region.
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
        // Before the addresses become free.
        drop(self.guard.take());
        // SAFETY: our own mapping with its own size, also in a forked child, where it is mapped without access; every reference into it borrows `self` and is gone. A failure
        // would mean that the range was wrong, which a program could not repair.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.mapped) };
    }
}

fn round_up(bytes: usize, page: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(page)
}

/// Whether the kernel gives memory of this kind transparent huge pages where it is asked for them. `madvise` succeeds
/// even where it never does.
fn huge_pages(setting: &str) -> bool {
    crate::files::read_kernel_text(setting)
        .is_ok_and(|text| !text.contains("[never]") && !text.contains("[deny]") && text.contains('['))
}
