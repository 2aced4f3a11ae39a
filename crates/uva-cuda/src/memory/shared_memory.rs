//! Device memory that several processes map.
//!
//! There are two ways:
//! - **By file descriptor** (VMM): cuMemCreate makes the memory, and its exported descriptor goes over a socket. The
//!   memory lives until the last mapping, handle and descriptor are gone. So the death of the process that made it
//!   takes nothing from the others.
//! - **By handle** (legacy): 64 bytes that name memory from cuMemAlloc. Its maker must outlive all processes that
//!   opened it.
//!
//! Each importer sees the memory at an address of its own.

use std::ffi::c_char;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUipcMem_flags};
use serde::{Deserialize, Serialize};
use uva_options::named;

use super::mapping::{Mapping, Physical};
use crate::devices::context::Context;
use crate::devices::device::Feature;
use crate::error::{CudaError, NOT_SUPPORTED};
use crate::memory::copy::device_to_host;
use crate::memory::lack::explain_lack;
use crate::slice::DeviceSlice;
use crate::stream::CudaStream;

/// CUDA_ERROR_NOT_PERMITTED.
const NOT_PERMITTED: u32 = 800;

/// Legacy allocations are whole blocks of this size. The driver packs smaller ones together, and opening a handle maps
/// the whole block into the other process.
const LEGACY_BLOCK: usize = 2 << 20;

named! {
    /// The requested way of sharing.
    pub enum IpcKind = Auto {
        /// vmm where both processes can, else legacy.
        Auto = "auto",
        /// Allocations exported as file descriptors.
        Vmm = "vmm",
        /// cuIpcGetMemHandle.
        Legacy = "legacy",
    }
}

/// The way in which a buffer is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SharedKind {
    /// By file descriptor.
    Vmm,
    /// By handle.
    Legacy,
}

impl SharedKind {
    /// `vmm` or `legacy`, as the option `--ipc` takes them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vmm => "vmm",
            Self::Legacy => "legacy",
        }
    }
}

/// An importer's description of a buffer, without the file descriptor, which travels separately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedMetadata {
    /// Which way.
    pub kind: SharedKind,
    /// Requested bytes.
    pub bytes: u64,
    /// Bytes of the allocation.
    pub allocated: u64,
    /// The device's PCI address: ordinals may differ between processes, this doesn't.
    pub device: String,
    /// The 64 bytes that name legacy memory; empty for the other kind.
    pub handle: Vec<u8>,
}

/// A buffer exported to another process.
#[derive(Debug)]
pub struct Exported {
    /// The description to send.
    pub metadata: SharedMetadata,
    /// The descriptor to send with it, over a socket: for [`SharedKind::Vmm`] only. Closed on exec.
    pub fd: Option<OwnedFd>,
}

/// Device memory that this process made for others, or that another process made and this one maps.
///
/// Dropping it unmaps it here. The maker of legacy memory drops it after all others have: the driver leaves the other
/// order undefined.
#[derive(Debug)]
pub struct SharedBuffer {
    context: Arc<Context>,
    what: String,
    bytes: usize,
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Vmm(Mapping),
    /// From cuMemAlloc.
    LegacyOwned {
        address: u64,
        allocated: usize,
    },
    /// From cuIpcOpenMemHandle.
    LegacyOpened {
        address: u64,
        allocated: usize,
    },
}

impl SharedBuffer {
    /// Allocates `bytes` bytes of device memory (at least one), uninitialised, that other processes can map. `what`
    /// names the buffer in messages.
    ///
    /// With [`IpcKind::Auto`] the export is tried as well, since some containers forbid it. If sharing by descriptor is
    /// not supported or not permitted, the buffer is shared by handle.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], with the free bytes; [`CudaError::Unsupported`] if [`IpcKind::Vmm`] was requested
    /// and the device lacks it; [`CudaError::Call`].
    pub fn create(
        context: &Arc<Context>,
        bytes: usize,
        kind: IpcKind,
        what: &str,
    ) -> Result<Self, CudaError> {
        Self::create_as(context, bytes, kind, what, false)
    }

    /// As [`create`](Self::create), of memory that storage may write to directly, where the device has that: see
    /// [`cufile`](crate::cufile).
    ///
    /// # Errors
    /// As there.
    pub fn create_for_storage(
        context: &Arc<Context>,
        bytes: usize,
        kind: IpcKind,
        what: &str,
    ) -> Result<Self, CudaError> {
        let direct = context.device().supports(Feature::DirectAccess)?;
        Self::create_as(context, bytes, kind, what, direct)
    }

    fn create_as(
        context: &Arc<Context>,
        bytes: usize,
        kind: IpcKind,
        what: &str,
        direct: bool,
    ) -> Result<Self, CudaError> {
        let bytes = bytes.max(1);
        let device = context.device();
        let can = kind != IpcKind::Legacy && device.supports(Feature::SharedByFd)?;
        match kind {
            IpcKind::Vmm if !can => Err(CudaError::Unsupported(format!(
                "device {} ({}) cannot share memory by file descriptor; `ipc=legacy` shares it by handle",
                device.ordinal(),
                device.name()
            ))),
            IpcKind::Vmm => Self::create_vmm(context, bytes, what, direct),
            IpcKind::Auto if can => {
                let tried = Self::create_vmm(context, bytes, what, direct).and_then(|buffer| {
                    buffer.export()?;
                    Ok(buffer)
                });
                match tried {
                    Err(error) if matches!(error.code(), Some(NOT_SUPPORTED | NOT_PERMITTED)) => {
                        Self::create_legacy(context, bytes, what)
                    }
                    other => other,
                }
            }
            IpcKind::Auto | IpcKind::Legacy => Self::create_legacy(context, bytes, what),
        }
    }

    fn create_vmm(context: &Arc<Context>, bytes: usize, what: &str, direct: bool) -> Result<Self, CudaError> {
        let physical = Physical::create(context, bytes, what, direct)?;
        let mapping = Mapping::new(context, vec![physical], what)?;
        Ok(Self { context: Arc::clone(context), what: what.to_owned(), bytes, memory: Memory::Vmm(mapping) })
    }

    fn create_legacy(context: &Arc<Context>, bytes: usize, what: &str) -> Result<Self, CudaError> {
        context.bind()?;
        let allocated = bytes.checked_next_multiple_of(LEGACY_BLOCK).ok_or_else(|| {
            CudaError::Refused(format!("{what}: {bytes} bytes are more than can be addressed"))
        })?;
        let mut address = 0;
        // SAFETY: writes one address; the context is current. Not cuMemAllocAsync, whose memory has no IPC handle.
        unsafe {
            driver_call!(
                cuMemAlloc_v2(&mut address, allocated),
                "allocating {allocated} bytes of shared device memory for {what}"
            )
        }
        .map_err(|error| explain_lack(context, what, allocated as u64, error))?;
        let memory = Memory::LegacyOwned { address, allocated };
        Ok(Self { context: Arc::clone(context), what: what.to_owned(), bytes, memory })
    }

    /// The data that another process needs to map this buffer. It can be exported any number of times.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for a buffer that was itself opened by handle; [`CudaError::Call`];
    /// [`CudaError::System`] when the descriptor can't be marked to be closed on exec.
    pub fn export(&self) -> Result<Exported, CudaError> {
        self.context.bind()?;
        let what = &self.what;
        let (handle, fd) = match &self.memory {
            Memory::Vmm(mapping) => {
                let fd = mapping.parts().first().map(|part| part.export(what)).transpose()?;
                (Vec::new(), fd)
            }
            Memory::LegacyOwned { address, .. } => {
                let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
                // SAFETY: writes one handle; the address is the base of memory from cuMemAlloc.
                unsafe {
                    driver_call!(
                        cuIpcGetMemHandle(&mut handle, *address),
                        "exporting {what} to another process"
                    )
                }?;
                (handle.reserved.iter().map(|&byte| byte as u8).collect(), None)
            }
            Memory::LegacyOpened { .. } => {
                return Err(CudaError::Refused(format!(
                    "{what}: memory that another process shares by handle can only be exported by that process"
                )));
            }
        };
        let metadata = SharedMetadata {
            kind: self.kind(),
            bytes: self.bytes as u64,
            allocated: self.allocated() as u64,
            device: self.context.device().pci_bus_id().to_owned(),
            handle,
        };
        Ok(Exported { metadata, fd })
    }

    /// Maps a buffer of another process into this one. A process can't open by handle what it made itself. `what` names
    /// the buffer in messages.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for an inconsistent export: another device, no descriptor, an impossible handle or size;
    /// [`CudaError::Call`].
    pub fn import(context: &Arc<Context>, exported: Exported, what: &str) -> Result<Self, CudaError> {
        let Exported { metadata, fd } = exported;
        let refused =
            |why: String| CudaError::Refused(format!("{what}, as another process shares it: {why}"));
        let ours = context.device().pci_bus_id();
        if metadata.device != ours {
            return Err(refused(format!(
                "it is on device {}, and this process is on {ours}",
                metadata.device
            )));
        }
        let sizes = usize::try_from(metadata.bytes).ok().zip(usize::try_from(metadata.allocated).ok());
        let (bytes, allocated) =
            sizes.filter(|&(bytes, allocated)| bytes > 0 && bytes <= allocated).ok_or_else(|| {
                refused(format!("{} bytes in an allocation of {}", metadata.bytes, metadata.allocated))
            })?;
        context.bind()?;
        let memory = match metadata.kind {
            SharedKind::Vmm => {
                let fd = fd.ok_or_else(|| refused("its file descriptor did not arrive".to_owned()))?;
                let physical = Physical::import(context, fd, allocated, what)?;
                Memory::Vmm(Mapping::new(context, vec![physical], what)?)
            }
            SharedKind::Legacy => {
                let reserved: [u8; 64] = metadata.handle.as_slice().try_into().map_err(|_| {
                    refused(format!("its handle has {} bytes instead of 64", metadata.handle.len()))
                })?;
                let handle = sys::CUipcMemHandle { reserved: reserved.map(|byte| byte as c_char) };
                let mut address = 0;
                // SAFETY: writes one address. Any 64 bytes may be passed, and the driver refuses invalid ones. The only
                // flag that exists must be given.
                unsafe {
                    driver_call!(
                        cuIpcOpenMemHandle_v2(
                            &mut address,
                            handle,
                            CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32
                        ),
                        "opening {what} from another process"
                    )
                }?;
                Memory::LegacyOpened { address, allocated }
            }
        };
        Ok(Self { context: Arc::clone(context), what: what.to_owned(), bytes, memory })
    }

    /// Drops the memory without a call to the driver. It is for memory opened by handle whose maker has died, which
    /// NVIDIA leaves undefined. By descriptor there is no need, since the memory outlives its maker: it's unmapped as
    /// by a drop.
    pub fn forget(self) {
        if matches!(self.memory, Memory::LegacyOpened { .. }) {
            let buffer = std::mem::ManuallyDrop::new(self);
            // SAFETY: the value is never used or dropped again, so its Arc is read out exactly once. The context is
            // ours and may still be released. The name's few bytes are leaked.
            drop(unsafe { std::ptr::read(&buffer.context) });
        }
    }

    /// The way it's shared.
    pub fn kind(&self) -> SharedKind {
        match self.memory {
            Memory::Vmm(_) => SharedKind::Vmm,
            Memory::LegacyOwned { .. } | Memory::LegacyOpened { .. } => SharedKind::Legacy,
        }
    }

    /// The requested bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device memory that it takes: the requested bytes, rounded up to the driver's granularity (2 MiB).
    pub fn allocated(&self) -> usize {
        match &self.memory {
            Memory::Vmm(mapping) => mapping.bytes(),
            Memory::LegacyOwned { allocated, .. } | Memory::LegacyOpened { allocated, .. } => *allocated,
        }
    }

    /// Its device address in this process.
    pub fn address(&self) -> u64 {
        match &self.memory {
            Memory::Vmm(mapping) => mapping.address(),
            Memory::LegacyOwned { address, .. } | Memory::LegacyOpened { address, .. } => *address,
        }
    }

    /// A part of it, as a byte range.
    ///
    /// # Errors
    /// [`CudaError::Refused`] if the range is reversed or reaches beyond the requested bytes.
    pub fn slice(&self, range: Range<usize>) -> Result<DeviceSlice<'_>, CudaError> {
        // SAFETY: mapped, readable by the context's device, as long as the borrow.
        unsafe { DeviceSlice::from_raw(self.address(), self.bytes, self.context.device().ordinal() as i32) }
            .sub(range)
    }

    /// Copies parts of it to the host, each from its bytes of the memory, on this stream, and waits for them. What the
    /// device writes there at the same time may arrive or not.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for bytes outside the memory, or another number of them; [`CudaError::Call`].
    pub fn read_back(
        &self,
        stream: &CudaStream,
        parts: &mut [(Range<usize>, &mut [u8])],
    ) -> Result<(), CudaError> {
        for (from, to) in parts.iter() {
            if self.slice(from.clone())?.bytes() != to.len() {
                let what = format!("bytes {from:?} of {} to {} bytes on the host", self.what, to.len());
                return Err(CudaError::Refused(what));
            }
        }
        let mut enqueued = Ok(());
        for (from, to) in parts {
            let from = self.address() + from.start as u64;
            // SAFETY: within the memory, by the check above. Memory and `to` are borrowed until the copies have been
            // waited for, below, whether or not all of them were enqueued.
            enqueued = enqueued.and_then(|()| unsafe { device_to_host(stream, from, to) });
        }
        let waited = stream.synchronize();
        enqueued.and(waited)
    }

    /// The context it's mapped in.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        // Without the context the memory is already gone, so errors are ignored. A `Mapping` releases itself.
        if self.context.bind().is_err() {
            return;
        }
        match self.memory {
            Memory::Vmm(_) => {}
            Memory::LegacyOwned { address, .. } => {
                // SAFETY: allocated by us, freed once; the owner promises that the others have closed it.
                let _ = unsafe { driver_call!(cuMemFree_v2(address), "freeing {}", self.what) };
            }
            Memory::LegacyOpened { address, .. } => {
                // SAFETY: opened by us, closed once.
                let _ = unsafe { driver_call!(cuIpcCloseMemHandle(address), "closing {}", self.what) };
            }
        }
    }
}
