//! Files and device memory registered with the driver, and reads from files into memory.

use std::ffi::c_void;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use cudarc::cufile::sys::{CUfileDescr_t, CUfileDescr_t__bindgen_ty_1, CUfileFileHandleType, CUfileHandle_t};

use super::driver::Cufile;
use super::status::describe;
use crate::memory::SharedBuffer;

/// Why a read failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// The system's error, an `errno`.
    System(i32),
    /// A code of cufile.h.
    Cufile(u32),
}

impl fmt::Display for ReadFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(errno) => write!(formatter, "{}", io::Error::from_raw_os_error(*errno)),
            Self::Cufile(code) => write!(formatter, "cuFileRead failed: {}", describe(*code)),
        }
    }
}

/// An open file registered with the driver.
pub struct CufileFile {
    driver: Arc<Cufile>,
    handle: CUfileHandle_t,
    /// The file, kept open since the driver reads from its descriptor.
    _file: Arc<File>,
}

// SAFETY: a CUfileHandle_t is a handle that any thread may read from; cuFileRead is thread-safe.
unsafe impl Send for CufileFile {}
// SAFETY: as above; nothing here is mutated.
unsafe impl Sync for CufileFile {}

impl CufileFile {
    /// Registers the file with the driver. It must be open with `O_DIRECT`.
    ///
    /// # Errors
    /// The reason why the driver rejects it.
    pub fn new(driver: &Arc<Cufile>, file: Arc<File>) -> Result<Self, String> {
        let mut handle = std::ptr::null_mut();
        let mut description = CUfileDescr_t {
            type_: CUfileFileHandleType::CU_FILE_HANDLE_TYPE_OPAQUE_FD,
            handle: CUfileDescr_t__bindgen_ty_1 { handle: std::ptr::null_mut() },
            fs_ops: std::ptr::null(),
        };
        description.handle.fd = file.as_raw_fd();
        // SAFETY: writes one handle, and reads the description. The descriptor stays open until the handle is given back.
        let status = unsafe { (driver.functions().cuFileHandleRegister)(&mut handle, &mut description) };
        status.check("cuFileHandleRegister")?;
        Ok(Self { driver: Arc::clone(driver), handle, _file: file })
    }

    /// Reads at most `bytes` bytes from byte `offset` of the file to byte `at` of the buffer. Returns the number of
    /// bytes read: 0 at the file's end, and possibly fewer than requested. The bytes are in place when this returns.
    ///
    /// The driver's context must be current on this thread.
    ///
    /// # Errors
    /// [`ReadFault`]; the content of the buffer's range is then undefined.
    ///
    /// # Panics
    /// If the range is outside the buffer.
    ///
    /// # Safety
    /// Neither the host nor work on the device may use that range of the buffer during the call.
    pub unsafe fn read(
        &self,
        offset: u64,
        bytes: usize,
        buffer: &CufileBuffer,
        at: usize,
    ) -> Result<usize, ReadFault> {
        let end = at.checked_add(bytes).expect("a range");
        assert!(end <= buffer.memory.bytes(), "bytes {at}..{end} of {}", buffer.memory.bytes());
        let base = buffer.base();
        let (offset, at) = (offset as i64, at as i64);
        // SAFETY: the range is within the buffer, which is mapped on the device, and is exclusive by the caller's
        // promise. The file is open.
        let read = unsafe { (self.driver.functions().cuFileRead)(self.handle, base, bytes, offset, at) };
        match read {
            0.. => Ok((read as usize).min(bytes)),
            -1 => {
                // If the library left it unset, it would read as success.
                let errno = io::Error::last_os_error().raw_os_error().filter(|errno| *errno != 0);
                Err(ReadFault::System(errno.unwrap_or(rustix::io::Errno::IO.raw_os_error())))
            }
            code => Err(ReadFault::Cufile(u32::try_from(-code).unwrap_or(u32::MAX))),
        }
    }
}

impl Drop for CufileFile {
    fn drop(&mut self) {
        // SAFETY: registered once, given back once. Reads borrow the value, so none is in flight.
        unsafe { (self.driver.functions().cuFileHandleDeregister)(self.handle) };
    }
}

impl fmt::Debug for CufileFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CufileFile").finish_non_exhaustive()
    }
}

/// Device memory as the destination of reads.
#[derive(Debug)]
pub struct CufileBuffer {
    driver: Arc<Cufile>,
    memory: Arc<SharedBuffer>,
    unregistered: Option<String>,
}

impl CufileBuffer {
    /// Registers the memory with the driver. If that fails, reads pass through the library's own buffers.
    pub fn new(driver: &Arc<Cufile>, memory: Arc<SharedBuffer>) -> Self {
        let mut buffer = Self { driver: Arc::clone(driver), memory, unregistered: None };
        let bound = driver.context().bind().map_err(|error| error.to_string());
        buffer.unregistered = bound.and_then(|()| buffer.register()).err();
        buffer
    }

    fn register(&self) -> Result<(), String> {
        // SAFETY: mapped memory of the device, of as many bytes, which lives until it is given back.
        let status =
            unsafe { (self.driver.functions().cuFileBufRegister)(self.base(), self.memory.allocated(), 0) };
        status.check("cuFileBufRegister")
    }

    fn base(&self) -> *mut c_void {
        self.memory.address() as usize as *mut c_void
    }

    /// The memory.
    pub fn memory(&self) -> &Arc<SharedBuffer> {
        &self.memory
    }

    /// Why it is not registered; `None` if it is.
    pub fn unregistered(&self) -> Option<&str> {
        self.unregistered.as_deref()
    }
}

impl Drop for CufileBuffer {
    fn drop(&mut self) {
        if self.unregistered.is_none() && self.driver.context().bind().is_ok() {
            // SAFETY: registered once, given back once, while the memory is still mapped. Reads borrow the value.
            let _ = unsafe { (self.driver.functions().cuFileBufDeregister)(self.base()) };
        }
    }
}
