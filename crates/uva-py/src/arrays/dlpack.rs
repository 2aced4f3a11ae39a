//! DLPack 1.x: how an array's memory is lent to torch, numpy or any other library, without a copy.
//!
//! An exporter makes a *managed tensor* and puts it into a capsule. The consumer takes it out and calls its deleter in
//! the end. It has two layouts, distinguished by the capsule's name: `dltensor` (before 1.0) and `dltensor_versioned`.
//! A consumer renames the capsule to `used_…` and owns the tensor from then on. An unconsumed capsule deletes the
//! tensor itself.
//!
//! The crate `dlpark` does the same and more: reading tensors, builders, types of a dozen libraries. This module needs
//! only these structs and two C functions, which are easier to check here than through its generics. It would also
//! bring two dependencies.
//!
//! Layouts after `dlpack.h` of version 1.0; later minor versions changed none of them.

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pyo3::prelude::*;

/// Keeps an array's memory alive. The thread that releases the last tensor drops it, with or without the interpreter's
/// lock, perhaps while the interpreter ends. So it must not call Python.
pub type MemoryOwner = Arc<dyn Send + Sync>;

/// The version of versioned tensors.
pub const VERSION: (u32, u32) = (1, 0);

/// `kDLCPU`.
const CPU: i32 = 1;
/// `kDLCUDA`.
const CUDA: i32 = 2;

/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
const READ_ONLY: u64 = 1;
/// `DLPACK_FLAG_BITMASK_IS_COPIED`.
const IS_COPIED: u64 = 2;

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// The device of the memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlpackDevice {
    kind: i32,
    id: i32,
}

impl DlpackDevice {
    /// Host memory.
    pub const HOST: Self = Self { kind: CPU, id: 0 };

    /// Memory of the GPU with this ordinal.
    pub const fn cuda(ordinal: i32) -> Self {
        Self { kind: CUDA, id: ordinal }
    }

    /// Whether the CPU can read the memory.
    pub fn is_host(self) -> bool {
        self.kind == CPU
    }

    /// The pair of `__dlpack_device__`: type and number.
    pub fn pair(self) -> (i32, i32) {
        (self.kind, self.id)
    }
}

/// The type of an element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlpackType {
    code: u8,
    bits: u8,
    lanes: u16,
}

impl DlpackType {
    /// `int8`.
    pub const I8: Self = Self::new(0, 8);
    /// `int32`.
    pub const I32: Self = Self::new(0, 32);
    /// `int64`.
    pub const I64: Self = Self::new(0, 64);
    /// `uint16`.
    pub const U16: Self = Self::new(1, 16);
    /// `uint8`.
    pub const U8: Self = Self::new(1, 8);
    /// `float16`.
    pub const F16: Self = Self::new(2, 16);
    /// `float32`.
    pub const F32: Self = Self::new(2, 32);
    /// `bfloat16`.
    pub const BF16: Self = Self::new(4, 16);
    /// `float8_e4m3fn`.
    pub const E4M3: Self = Self::new(10, 8);

    const fn new(code: u8, bits: u8) -> Self {
        Self { code, bits, lanes: 1 }
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        usize::from(self.bits / 8)
    }

    /// Type code, bits and lanes, as DLPack counts them.
    pub fn parts(self) -> (u8, u8, u16) {
        (self.code, self.bits, self.lanes)
    }

    /// The type's name in numpy and torch.
    pub fn name(self) -> &'static str {
        match self {
            Self::I8 => "int8",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U16 => "uint16",
            Self::U8 => "uint8",
            Self::F16 => "float16",
            Self::F32 => "float32",
            Self::BF16 => "bfloat16",
            Self::E4M3 => "float8_e4m3fn",
            _ => "opaque",
        }
    }
}

/// An array in memory: one or two dimensions, with consecutive rows.
#[derive(Clone, Copy, Debug)]
pub struct ArrayShape {
    sizes: [i64; 2],
    dimensions: usize,
}

impl ArrayShape {
    /// `rows` elements; or with `columns`, `rows` rows of them.
    pub fn new(rows: usize, columns: Option<usize>) -> Self {
        // No array in memory has 2^63 elements.
        let size = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
        Self {
            sizes: [size(rows), columns.map_or(1, size)],
            dimensions: if columns.is_some() { 2 } else { 1 },
        }
    }

    /// Each dimension's length.
    pub fn sizes(&self) -> &[i64] {
        &self.sizes[..self.dimensions]
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.sizes.iter().map(|size| *size as usize).product()
    }
}

/// `DLTensor`. Its fields are for [`Input`](crate::arrays::input::Input), which reads those of others.
#[repr(C)]
pub struct Tensor {
    pub(crate) data: *mut c_void,
    device: DlpackDevice,
    pub(crate) dimensions: i32,
    pub(crate) element: DlpackType,
    pub(crate) shape: *mut i64,
    pub(crate) strides: *mut i64,
    pub(crate) byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
pub struct ManagedLegacy {
    pub(crate) tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
pub struct ManagedVersioned {
    pub(crate) major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    pub(crate) tensor: Tensor,
}

impl ManagedVersioned {
    /// Whether the owner forbids writes.
    pub fn is_read_only(&self) -> bool {
        self.flags & READ_ONLY != 0
    }
}

/// The tensor's context: the targets of its pointers, and the owner of its memory.
struct Context {
    shape: [i64; 2],
    strides: [i64; 2],
    _owner: MemoryOwner,
}

/// The lent memory.
pub struct LentArray {
    /// The first element.
    pub pointer: *mut u8,
    /// The lengths of the dimensions.
    pub shape: ArrayShape,
    /// The type of the elements.
    pub element: DlpackType,
    /// The device of the memory.
    pub device: DlpackDevice,
    /// Whether the memory must not be written to.
    pub read_only: bool,
    /// Whether the consumer is the only user of the memory.
    pub copied: bool,
    /// The owner of the memory.
    pub owner: MemoryOwner,
}

impl LentArray {
    fn managed(self) -> (Tensor, *mut c_void, u64) {
        let columns = self.shape.sizes[1];
        let row = if self.shape.dimensions == 2 { columns } else { 1 };
        let flags = if self.read_only { READ_ONLY } else { 0 } | if self.copied { IS_COPIED } else { 0 };
        let context = Box::into_raw(Box::new(Context {
            shape: self.shape.sizes,
            strides: [row, 1],
            _owner: self.owner,
        }));
        // SAFETY: the box was made a line above and is freed by the deleter only. Addresses of its fields are taken
        // without making references, so they stay good however often the consumer reads through them.
        let (shape, strides) = unsafe { (&raw mut (*context).shape, &raw mut (*context).strides) };
        let tensor = Tensor {
            data: self.pointer.cast(),
            device: self.device,
            dimensions: self.shape.dimensions as i32,
            element: self.element,
            shape: shape.cast(),
            strides: strides.cast(),
            byte_offset: 0,
        };
        (tensor, context.cast(), flags)
    }

    /// Exports the array in a capsule of version 1.
    pub fn versioned(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let (tensor, context, flags) = self.managed();
        let (major, minor) = VERSION;
        let managed =
            ManagedVersioned { major, minor, context, deleter: Some(delete_versioned), flags, tensor };
        // SAFETY: the pointer is of a box that `delete_versioned` can free.
        unsafe { capsule(py, Box::into_raw(Box::new(managed)), VERSIONED, drop_versioned, delete_versioned) }
    }

    /// Exports the array in a capsule from before version 1, which cannot mark memory as read-only.
    pub fn legacy(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let (tensor, context, _) = self.managed();
        let managed = ManagedLegacy { tensor, context, deleter: Some(delete_legacy) };
        // SAFETY: the pointer is of a box that `delete_legacy` can free.
        unsafe { capsule(py, Box::into_raw(Box::new(managed)), LEGACY, drop_legacy, delete_legacy) }
    }
}

/// A capsule around a managed tensor, which it owns.
///
/// # Safety
/// `managed` is owned by the caller and `delete` may be called for it once.
unsafe fn capsule<'py, M>(
    py: Python<'py>,
    managed: *mut M,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut pyo3::ffi::PyObject),
    delete: unsafe extern "C" fn(*mut M),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `py` shows that this thread holds the interpreter; the name is static; the pointer is not null.
    let made = unsafe { pyo3::ffi::PyCapsule_New(managed.cast(), name.as_ptr(), Some(destructor)) };
    if made.is_null() {
        // SAFETY: there is no capsule, so the tensor still belongs to the caller, who permits its deletion.
        unsafe { delete(managed) };
    }
    // SAFETY: `PyCapsule_New` returns a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }
}

/// Frees the box of [`LentArray::managed`].
///
/// # Safety
/// `context` is of [`LentArray::managed`] and has not been freed.
unsafe fn free(context: *mut c_void) {
    // SAFETY: see above.
    let context = unsafe { Box::from_raw(context.cast::<Context>()) };
    // A panic must not unwind into C. The owner is gone in any case, and the error has no recipient.
    let _ = catch_unwind(AssertUnwindSafe(move || drop(context)));
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    if !managed.is_null() {
        // SAFETY: a consumer calls this once, with the pointer that the capsule held: the box of
        // `LentArray::versioned`.
        unsafe { free(Box::from_raw(managed).context) };
    }
}

unsafe extern "C" fn delete_legacy(managed: *mut ManagedLegacy) {
    if !managed.is_null() {
        // SAFETY: as in `delete_versioned`, for `LentArray::legacy`.
        unsafe { free(Box::from_raw(managed).context) };
    }
}

/// The tensor of an unconsumed capsule; null if a consumer has taken it.
///
/// # Safety
/// `capsule` is one of [`capsule`]'s and the interpreter is ours, as in a capsule's destructor.
unsafe fn not_taken<M>(capsule: *mut pyo3::ffi::PyObject, name: &CStr) -> *mut M {
    // SAFETY: `PyCapsule_IsValid` never fails and sets no exception, so one that is being raised meanwhile stays; where
    // it says yes, `PyCapsule_GetPointer` with the same name cannot fail either.
    unsafe {
        match pyo3::ffi::PyCapsule_IsValid(capsule, name.as_ptr()) {
            1 => pyo3::ffi::PyCapsule_GetPointer(capsule, name.as_ptr()).cast(),
            _ => std::ptr::null_mut(),
        }
    }
}

unsafe extern "C" fn drop_versioned(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: Python calls this once, when the capsule dies. Under its first name it still owns its tensor.
    unsafe { delete_versioned(not_taken(capsule, VERSIONED)) };
}

unsafe extern "C" fn drop_legacy(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: as in `drop_versioned`.
    unsafe { delete_legacy(not_taken(capsule, LEGACY)) };
}
