//! Device memory as memfds, which other processes can map, which have no name, and which are freed with their last
//! user.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::machine::codes::Code;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// The seals, so that a peer cannot remove pages of a mapping.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// The purpose of such a file: part of its name, so that a descriptor of another kind is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// cuMemAlloc.
    Allocation,
    /// cuMemCreate.
    Physical,
    /// An event that processes share.
    Event,
    /// cuMemHostAlloc.
    Pinned,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Self::Allocation => "cuda-sim-allocation",
            Self::Physical => "cuda-sim-physical",
            Self::Event => "cuda-sim-event",
            Self::Pinned => "cuda-sim-pinned",
        }
    }
}

/// A memfd of this library.
#[derive(Debug)]
pub struct MemoryFile {
    pub fd: OwnedFd,
    pub bytes: usize,
    pub inode: u64,
}

impl MemoryFile {
    /// Creates a memfd of this size.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`, also for a lack of descriptors.
    pub fn create(purpose: Purpose, bytes: usize) -> Result<Self, Code> {
        let create = || -> rustix::io::Result<Self> {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let fd = rustix::fs::memfd_create(purpose.name(), flags)?;
            let bytes = bytes.next_multiple_of(PAGE);
            rustix::fs::ftruncate(&fd, bytes as u64)?;
            rustix::fs::fcntl_add_seals(&fd, SEALS)?;
            let inode = rustix::fs::fstat(&fd)?.st_ino;
            Ok(Self { fd, bytes, inode })
        };
        create().map_err(|_| Code::OUT_OF_MEMORY)
    }

    /// Wraps a received descriptor; `None` if it is not a file of that purpose.
    pub fn from_fd(purpose: Purpose, fd: OwnedFd) -> Option<Self> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
        let name = link.to_str()?.strip_prefix("/memfd:")?.split(' ').next()?;
        let sealed = rustix::fs::fcntl_get_seals(&fd).ok()?.contains(SEALS);
        let stat = rustix::fs::fstat(&fd).ok()?;
        let bytes = usize::try_from(stat.st_size).ok()?;
        (name == purpose.name() && sealed).then_some(Self { fd, bytes, inode: stat.st_ino })
    }

    /// Opens the file that process `pid` has under number `fd`; `None` if it is closed or was replaced.
    pub fn of_process(purpose: Purpose, pid: u32, fd: u32, inode: u64) -> Option<Self> {
        let file = File::options().read(true).write(true).open(format!("/proc/{pid}/fd/{fd}")).ok()?;
        Self::from_fd(purpose, file.into()).filter(|file| file.inode == inode)
    }
}

/// A part of the address space, released on drop.
#[derive(Debug)]
pub struct Mapping {
    base: *mut c_void,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; this type only has its address.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method writes through it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `bytes` at a multiple of `alignment`, a power of two of at least a page; unreadable until a file is
    /// mapped there. One more page after it stays unreadable, so that an overrun is a fault.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    pub fn reserve(bytes: usize, alignment: usize) -> Result<Self, Code> {
        let bytes = bytes
            .checked_next_multiple_of(PAGE)
            .and_then(|b| b.checked_add(PAGE))
            .ok_or(Code::OUT_OF_MEMORY)?;
        let more = bytes.checked_add(alignment - PAGE).ok_or(Code::OUT_OF_MEMORY)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice does not affect existing mappings.
        let first =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), more, ProtFlags::empty(), flags) }
                .map_err(|_| Code::OUT_OF_MEMORY)?;
        let skipped = (first as usize).next_multiple_of(alignment) - first as usize;
        let base = first.wrapping_byte_add(skipped);
        let behind = more - skipped - bytes;
        // SAFETY: both ends are in the mapping just made, outside the part that is kept, and not shared.
        unsafe {
            if skipped > 0 {
                let _ = rustix::mm::munmap(first, skipped);
            }
            if behind > 0 {
                let _ = rustix::mm::munmap(base.wrapping_byte_add(bytes), behind);
            }
        }
        Ok(Self { base, bytes })
    }

    /// Maps a whole file, readable and writable.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    pub fn of(file: &MemoryFile) -> Result<Self, Code> {
        let mapping = Self::reserve(file.bytes, PAGE)?;
        // SAFETY: the range is the reservation just made, which is not shared.
        unsafe { map_at(mapping.address(), file.bytes, file, ProtFlags::READ | ProtFlags::WRITE) }?;
        Ok(mapping)
    }

    pub fn address(&self) -> u64 {
        self.base as usize as u64
    }

    /// Keeps the range mapped permanently, since it may still be in use.
    pub fn leak(self) {
        std::mem::forget(self);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this value's own, and it is dropped once no operation uses it (see `ranges`). A use of a
        // freed address is a bug of the caller, and faults.
        let _ = unsafe { rustix::mm::munmap(self.base, self.bytes) };
    }
}

/// Maps the first `bytes` of `file` at `address`, replacing the present mapping.
///
/// # Safety
/// The range is within a reservation of this library, and no operation uses it.
///
/// # Errors
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub unsafe fn map_at(
    address: u64,
    bytes: usize,
    file: &MemoryFile,
    protection: ProtFlags,
) -> Result<(), Code> {
    let place = address as usize as *mut c_void;
    // SAFETY: the caller's promise. The file is sealed, so its pages are not removed.
    unsafe {
        rustix::mm::mmap(place, bytes, protection, MapFlags::SHARED | MapFlags::FIXED, file.fd.as_fd(), 0)
    }
    .map(|_| ())
    .map_err(|_| Code::OUT_OF_MEMORY)
}

/// Makes a range of a reservation unreadable again.
///
/// # Safety
/// As [`map_at`].
pub unsafe fn unmap_at(address: u64, bytes: usize) {
    let place = address as usize as *mut c_void;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the caller's promise. A failure leaves the old pages mapped, which this library no longer uses.
    let _ = unsafe { rustix::mm::mmap_anonymous(place, bytes, ProtFlags::empty(), flags) };
}
