//! Handles of memory and events for other processes: the process that holds the memfd, and the descriptor's number.
//!
//! A handle is opened through /proc/PID/fd, so it is valid exactly as long as its process holds the memory, and leaves
//! no files.

use std::ffi::{c_uint, c_void};
use std::os::fd::AsRawFd;

use crate::device_memory::memory::{self, What};
use crate::device_memory::memory_file::{Mapping, MemoryFile, Purpose};
use crate::device_memory::ranges::{self, Kind};
use crate::execution::event;
use crate::machine::codes::{Code, Outcome};
use crate::machine::context;
use crate::machine::device::configured;
use crate::machine::registry::{give, pointer};
use crate::machine::settings::Feature;
use crate::machine::types::IpcHandle;

/// The content of a handle's 64 bytes.
struct Handle {
    purpose: Purpose,
    pid: u32,
    fd: u32,
    inode: u64,
    bytes: u64,
    device: u32,
}

const MEMORY_MAGIC: [u8; 8] = *b"CUSIMMEM";
const EVENT_MAGIC: [u8; 8] = *b"CUSIMEVT";

impl Handle {
    fn of(purpose: Purpose, file: &MemoryFile, bytes: usize, device: usize) -> Self {
        Self {
            purpose,
            pid: std::process::id(),
            fd: file.fd.as_raw_fd() as u32,
            inode: file.inode,
            bytes: bytes as u64,
            device: device as u32,
        }
    }

    fn write(&self) -> IpcHandle {
        let mut reserved = [0; 64];
        reserved[..8].copy_from_slice(if self.purpose == Purpose::Event {
            &EVENT_MAGIC
        } else {
            &MEMORY_MAGIC
        });
        reserved[8..12].copy_from_slice(&self.pid.to_ne_bytes());
        reserved[12..16].copy_from_slice(&self.fd.to_ne_bytes());
        reserved[16..24].copy_from_slice(&self.inode.to_ne_bytes());
        reserved[24..32].copy_from_slice(&self.bytes.to_ne_bytes());
        reserved[32..36].copy_from_slice(&self.device.to_ne_bytes());
        IpcHandle { reserved }
    }

    fn read(handle: &IpcHandle, purpose: Purpose) -> Option<Self> {
        let bytes = &handle.reserved;
        let magic = if purpose == Purpose::Event { EVENT_MAGIC } else { MEMORY_MAGIC };
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        (bytes[..8] == magic).then_some(())?;
        Some(Self {
            purpose,
            pid: word(8)?,
            fd: word(12)?,
            inode: long(16)?,
            bytes: long(24)?,
            device: word(32)?,
        })
    }

    /// Opens the file of the handle.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_CONTEXT` for a handle of this process, as in the driver; `CUDA_ERROR_MAP_FAILED` if the
    /// other process no longer holds it.
    fn open(&self) -> Result<MemoryFile, Code> {
        if self.pid == std::process::id() {
            return Err(Code::INVALID_CONTEXT);
        }
        MemoryFile::of_process(self.purpose, self.pid, self.fd, self.inode).ok_or(Code::MAP_FAILED)
    }
}

/// # Safety
/// `handle` is null or writable.
pub unsafe fn memory_handle(handle: *mut IpcHandle, address: u64) -> Outcome {
    configured()?.need(Feature::IpcMemory)?;
    // An address inside an allocation refers to the whole allocation, as with the driver.
    let (start, kind) = ranges::around(address).ok_or(Code::INVALID_VALUE)?;
    if kind != Kind::Allocation {
        return Err(Code::INVALID_VALUE);
    }
    let made = memory::with(start, |owned| match &owned.what {
        What::Device(file) => {
            Some(Handle::of(Purpose::Allocation, file, owned.bytes, owned.context.device).write())
        }
        // Imported memory can only be exported by its owner.
        What::Imported { .. } | What::Pinned => None,
    });
    // SAFETY: the caller's promise.
    unsafe { give(handle, made.flatten().ok_or(Code::INVALID_VALUE)?) }
}

/// # Safety
/// `address` is null or writable.
pub unsafe fn open_memory(address: *mut u64, handle: IpcHandle, flags: c_uint) -> Outcome {
    configured()?.need(Feature::IpcMemory)?;
    // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS is the only flag, and is required.
    if address.is_null() || flags != 1 {
        return Err(Code::INVALID_VALUE);
    }
    let handle = Handle::read(&handle, Purpose::Allocation).ok_or(Code::INVALID_VALUE)?;
    let context = context::current()?;
    if handle.device as usize != context.device {
        return Err(Code::INVALID_VALUE);
    }
    // A second open returns the same address, and needs a second close.
    let known = memory::find(|owned| {
        matches!(owned.what, What::Imported { inode, .. } if inode == handle.inode)
            && context::same(&owned.context, &context)
    });
    let start = match known {
        Some(start) => {
            memory::with(start, |owned| {
                if let What::Imported { opened, .. } = &mut owned.what {
                    *opened += 1;
                }
            });
            start
        }
        None => {
            let file = handle.open()?;
            let bytes = usize::try_from(handle.bytes).ok().filter(|&bytes| bytes <= file.bytes);
            let bytes = bytes.ok_or(Code::INVALID_VALUE)?;
            let mapping = Mapping::of(&file)?;
            memory::own(
                context,
                bytes,
                Kind::Allocation,
                What::Imported { inode: handle.inode, opened: 1 },
                mapping,
            )
        }
    };
    // SAFETY: the caller's promise.
    unsafe { give(address, start) }
}

pub fn close_memory(address: u64) -> Outcome {
    let left = memory::with(address, |owned| match &mut owned.what {
        What::Imported { opened, .. } => {
            *opened -= 1;
            Some(*opened)
        }
        _ => None,
    });
    match left.flatten() {
        None => Err(Code::INVALID_VALUE),
        Some(0) => memory::disown(address, |what| matches!(what, What::Imported { .. })),
        Some(_) => Ok(()),
    }
}

/// # Safety
/// `handle` is null or writable.
pub unsafe fn event_handle(handle: *mut IpcHandle, event: *mut c_void) -> Outcome {
    configured()?.need(Feature::IpcEvent)?;
    let event = event::get(event)?;
    let shared = event.shared().ok_or(Code::INVALID_HANDLE)?;
    let made =
        Handle::of(Purpose::Event, &shared.file, shared.file.bytes, context::current()?.device).write();
    // SAFETY: the caller's promise.
    unsafe { give(handle, made) }
}

/// # Safety
/// `event` is null or writable.
pub unsafe fn open_event(event: *mut *mut c_void, handle: IpcHandle) -> Outcome {
    configured()?.need(Feature::IpcEvent)?;
    if event.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let file = Handle::read(&handle, Purpose::Event).ok_or(Code::INVALID_VALUE)?.open()?;
    let made = event::import(context::current()?, file)?;
    // SAFETY: the caller's promise.
    unsafe { give(event, pointer(made)) }
}
