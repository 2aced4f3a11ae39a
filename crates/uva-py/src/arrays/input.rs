//! Arrays that Python lends us: numpy's by `__array_interface__`, torch's and others' by DLPack.
//!
//! numpy's interface comes first because DLPack says less: numpy before 2.1 does not say that an array is read-only,
//! and older releases of others don't say that it holds bools. The interface dictionary says everything, in every
//! version.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arrays::dlpack::{DlpackDevice, ManagedLegacy, ManagedVersioned, Tensor};

/// The element types that a dataset can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementKind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    E4m3,
    F32,
    F64,
}

impl ElementKind {
    const ALL: [(ElementKind, &'static str, &'static str, (u8, u8)); 14] = [
        (ElementKind::Bool, "bool", "b1", (6, 8)),
        (ElementKind::I8, "int8", "i1", (0, 8)),
        (ElementKind::I16, "int16", "i2", (0, 16)),
        (ElementKind::I32, "int32", "i4", (0, 32)),
        (ElementKind::I64, "int64", "i8", (0, 64)),
        (ElementKind::U8, "uint8", "u1", (1, 8)),
        (ElementKind::U16, "uint16", "u2", (1, 16)),
        (ElementKind::U32, "uint32", "u4", (1, 32)),
        (ElementKind::U64, "uint64", "u8", (1, 64)),
        (ElementKind::F16, "float16", "f2", (2, 16)),
        // numpy has no names for these.
        (ElementKind::Bf16, "bfloat16", "", (4, 16)),
        (ElementKind::E4m3, "float8_e4m3fn", "", (10, 8)),
        (ElementKind::F32, "float32", "f4", (2, 32)),
        (ElementKind::F64, "float64", "f8", (2, 64)),
    ];

    /// Its name in numpy and torch.
    pub fn name(self) -> &'static str {
        ElementKind::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, name, ..)| name)
    }

    /// Bytes of one.
    pub fn bytes(self) -> usize {
        ElementKind::ALL
            .iter()
            .find(|(kind, ..)| *kind == self)
            .map_or(0, |(.., (_, bits))| usize::from(bits / 8))
    }

    fn of_numpy(typestr: &str) -> Option<ElementKind> {
        // `<`: little-endian; `|`: bytes have no order.
        let name = typestr.strip_prefix('<').or_else(|| typestr.strip_prefix('|'))?;
        ElementKind::ALL.iter().find(|(_, _, numpy, _)| *numpy == name).map(|(kind, ..)| *kind)
    }

    fn of_dlpack(code: u8, bits: u8) -> Option<ElementKind> {
        ElementKind::ALL.iter().find(|(.., dlpack)| *dlpack == (code, bits)).map(|(kind, ..)| *kind)
    }
}

/// An array of Python's in host memory, in C order. It keeps the object, and with it the memory.
pub struct Input {
    /// The argument that it is, for messages.
    pub name: String,
    /// The length of each dimension.
    pub shape: Vec<usize>,
    /// The type of an element.
    pub kind: ElementKind,
    pointer: *const u8,
    /// Whether its owner lets it be written to.
    writable: bool,
    /// The array, or the capsule that it lent.
    _owner: Py<PyAny>,
}

// SAFETY: the pointer is read through only while the owner lives. The array must not change meanwhile: every library
// whose C code reads arrays without the interpreter's lock requires that of its callers (numpy, torch). Values are not
// trusted where it matters, as the files written from them are checked afterwards.
unsafe impl Send for Input {}
// SAFETY: as above.
unsafe impl Sync for Input {}

impl Input {
    /// The array that is the argument `name`.
    pub fn new(name: &str, array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = array.py();
        if let Some(interface) = array.getattr_opt("__array_interface__")? {
            return Input::of_numpy(name, array, &interface);
        }
        let Some(device) = array.getattr_opt("__dlpack_device__")? else {
            return Err(PyTypeError::new_err(format!(
                "{name} is a {}: expected an array of numpy, torch or another library with DLPack",
                array.get_type().name()?
            )));
        };
        let device: (i32, i32) = device.call0()?.extract()?;
        // 3 is page-locked host memory.
        if device.0 != DlpackDevice::HOST.pair().0 && device.0 != 3 {
            return Err(PyValueError::new_err(format!(
                "{name} is on device {device:?}: it must be in host memory (torch: .cpu())"
            )));
        }
        let options = PyDict::new(py);
        options.set_item("max_version", (1, 0))?;
        let capsule = match array.call_method("__dlpack__", (), Some(&options)) {
            // Older exporters know no versions.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => array.call_method0("__dlpack__")?,
            other => other?,
        };
        Input::of_capsule(name, capsule)
    }

    fn of_numpy(name: &str, array: &Bound<'_, PyAny>, interface: &Bound<'_, PyAny>) -> PyResult<Self> {
        let get = |key: &str| interface.get_item(key);
        let typestr: String = get("typestr")?.extract()?;
        let Some(kind) = ElementKind::of_numpy(&typestr) else {
            let dtype = array.getattr("dtype").and_then(|dtype| dtype.str()?.extract::<String>());
            return Err(unfit(name, &dtype.unwrap_or(typestr)));
        };
        let shape: Vec<usize> = get("shape")?.extract()?;
        let strides = interface.cast::<PyDict>()?.get_item("strides")?.filter(|strides| !strides.is_none());
        if let Some(strides) = strides {
            let strides: Vec<i64> = strides.cast::<PyTuple>()?.extract()?;
            check_order(name, &shape, strides.iter().map(|&stride| stride / kind.bytes() as i64))?;
        }
        let (address, read_only): (usize, bool) = get("data")?.extract()?;
        let writable = !read_only;
        Input::at(name, address as *const u8, shape, kind, writable, array.clone().unbind())
    }

    fn of_capsule(name: &str, capsule: Bound<'_, PyAny>) -> PyResult<Self> {
        let named = |expected: &CStr| -> *mut c_void {
            // SAFETY: `IsValid` fails for no object; where it says yes, `GetPointer` with the same name cannot fail.
            unsafe {
                match pyo3::ffi::PyCapsule_IsValid(capsule.as_ptr(), expected.as_ptr()) {
                    1 => pyo3::ffi::PyCapsule_GetPointer(capsule.as_ptr(), expected.as_ptr()),
                    _ => std::ptr::null_mut(),
                }
            }
        };
        let versioned = named(c"dltensor_versioned").cast::<ManagedVersioned>();
        let legacy = named(c"dltensor").cast::<ManagedLegacy>();
        // The tensor is not taken out of the capsule, which so deletes it in the end: with us.
        let (tensor, writable): (&Tensor, bool) = if !versioned.is_null() {
            // SAFETY: by DLPack, a capsule of that name holds this struct, which lives as long as the capsule. The
            // major version comes first in every version, and the rest is read only for version 1.
            unsafe {
                if (*versioned).major != 1 {
                    let major = (*versioned).major;
                    return Err(PyValueError::new_err(format!(
                        "{name} uses DLPack {major}, but DLPack 1 is required"
                    )));
                }
                (&(*versioned).tensor, !(*versioned).is_read_only())
            }
        } else if !legacy.is_null() {
            // SAFETY: as above.
            unsafe { (&(*legacy).tensor, true) }
        } else {
            return Err(PyTypeError::new_err(format!("{name}: its __dlpack__ gave no DLPack capsule")));
        };
        let dimensions = usize::try_from(tensor.dimensions).unwrap_or(0);
        // SAFETY: both arrays are as long as there are dimensions; no strides mean C order. With no dimensions the
        // pointers may be null, and are not read.
        let (shape, strides) = unsafe {
            let slice = |at: *const i64| match dimensions {
                0 => &[][..],
                length => std::slice::from_raw_parts(at, length),
            };
            (slice(tensor.shape), (!tensor.strides.is_null()).then(|| slice(tensor.strides)))
        };
        let (code, bits, lanes) = tensor.element.parts();
        let Some(kind) = ElementKind::of_dlpack(code, bits).filter(|_| lanes == 1) else {
            return Err(unfit(name, &format!("of type ({code}, {bits}, {lanes}) in DLPack")));
        };
        let shape: Vec<usize> = shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
        if let Some(strides) = strides {
            check_order(name, &shape, strides.iter().copied())?;
        }
        let pointer = tensor.data.cast::<u8>().cast_const().wrapping_add(tensor.byte_offset as usize);
        Input::at(name, pointer, shape, kind, writable, capsule.unbind())
    }

    fn at(
        name: &str,
        pointer: *const u8,
        shape: Vec<usize>,
        kind: ElementKind,
        writable: bool,
        owner: Py<PyAny>,
    ) -> PyResult<Self> {
        let input = Self { name: name.to_owned(), shape, kind, pointer, writable, _owner: owner };
        if input.elements() > 0 && (pointer.is_null() || !(pointer as usize).is_multiple_of(kind.bytes())) {
            return Err(PyValueError::new_err(format!(
                "{name}: its elements are not aligned in memory: pass a copy of it"
            )));
        }
        Ok(input)
    }

    /// How many elements there are.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// As messages say it: `int64 [3, 4]`.
    pub fn describe(&self) -> String {
        format!("{} {:?}", self.kind.name(), self.shape)
    }

    /// The elements as bytes.
    pub fn bytes(&self) -> &[u8] {
        match self.elements() * self.kind.bytes() {
            // Aligned for every element.
            0 => bytemuck::cast_slice::<u64, u8>(&[]),
            // SAFETY: in C order from the pointer on, as long as its owner lives, which is as long as this does.
            length => unsafe { std::slice::from_raw_parts(self.pointer, length) },
        }
    }

    /// The elements, where they are 64-bit integers.
    pub fn as_i64(&self) -> Option<&[i64]> {
        // They have been found to be aligned.
        if self.kind == ElementKind::I64 { bytemuck::try_cast_slice(self.bytes()).ok() } else { None }
    }

    /// The elements, where they are bools.
    pub fn as_bools(&self) -> Option<Vec<bool>> {
        (self.kind == ElementKind::Bool).then(|| self.bytes().iter().map(|&byte| byte != 0).collect())
    }

    /// The memory to write to, if its owner permits it.
    ///
    /// # Safety
    /// The array is not read or written otherwise meanwhile.
    pub unsafe fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if !self.writable {
            return None;
        }
        match self.elements() * self.kind.bytes() {
            0 => Some(&mut []),
            // SAFETY: as in `bytes`; writable, and used by the caller alone for now.
            length => Some(unsafe { std::slice::from_raw_parts_mut(self.pointer.cast_mut(), length) }),
        }
    }

    /// Hands the elements, widened to 64 bits, to `write` in pieces; `None` if they are not integers that fit.
    pub fn widened<E>(&self, mut write: impl FnMut(&[i64]) -> Result<(), E>) -> Option<Result<(), E>> {
        const PIECE: usize = 1 << 14;
        macro_rules! widen {
            ($type:ty) => {{
                let values: &[$type] = bytemuck::try_cast_slice(self.bytes()).ok()?;
                let mut piece = Vec::with_capacity(PIECE.min(values.len()));
                for values in values.chunks(PIECE) {
                    piece.clear();
                    piece.extend(values.iter().map(|&value| i64::from(value)));
                    if let Err(error) = write(&piece) {
                        return Some(Err(error));
                    }
                }
                Some(Ok(()))
            }};
        }
        match self.kind {
            ElementKind::I64 => Some(write(self.as_i64()?)),
            ElementKind::I8 => widen!(i8),
            ElementKind::I16 => widen!(i16),
            ElementKind::I32 => widen!(i32),
            ElementKind::U8 => widen!(u8),
            ElementKind::U16 => widen!(u16),
            ElementKind::U32 => widen!(u32),
            _ => None,
        }
    }

    /// Whether [`widened`](Self::widened) can.
    pub fn is_integer(&self) -> bool {
        matches!(
            self.kind,
            ElementKind::I8
                | ElementKind::I16
                | ElementKind::I32
                | ElementKind::I64
                | ElementKind::U8
                | ElementKind::U16
                | ElementKind::U32
        )
    }
}

fn unfit(name: &str, found: &str) -> PyErr {
    PyValueError::new_err(format!("{name} is {found}, which no dataset holds"))
}

/// Refuses arrays that are not in C order.
fn check_order(
    name: &str,
    shape: &[usize],
    strides: impl DoubleEndedIterator<Item = i64> + ExactSizeIterator,
) -> PyResult<()> {
    let mut expected = 1;
    // The stride of a dimension of one entry is never used, and none is where there is no element.
    if shape.contains(&0) {
        return Ok(());
    }
    for (&size, stride) in shape.iter().zip(strides).rev() {
        if size != 1 && stride != expected {
            return Err(PyValueError::new_err(format!(
                "{name} is not contiguous: pass a copy of it in C order (numpy.ascontiguousarray, torch: .contiguous())"
            )));
        }
        expected *= size as i64;
    }
    Ok(())
}
