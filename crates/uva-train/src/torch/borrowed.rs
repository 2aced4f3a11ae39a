//! Memory of a slot or a mapped table as a tensor without a copy.

#![allow(unsafe_code)]

use crate::TrainError;
use crate::torch::device::TrainDevice;
use std::marker::PhantomData;
use tch::{Device, Kind, Tensor};
use uva_batch::{ArrayMemory, ColumnArray, Element};
use uva_cuda::DeviceSlice;
use uva_graph::ElementType;

/// A tensor over borrowed memory, on the host or on a CUDA device.
///
/// libtorch has no lifetimes: a shallow clone, a view, or an autograd graph that saved the tensor could be read after
/// `'a`. So this type stays inside the crate, and callers of [`Borrowed::tensor`] keep two rules:
///
/// - Every tensor made from it is dropped before the public function that received the memory returns. These are
///   `train_batch`, `enqueue_batch`, `evaluate_batch`, `evaluate_full_each`, `predict_batch` and `predict_full`. They
///   return numbers or hand copies on, and the only tensors they store are parameters and moments, which own their
///   storage.
/// - Nothing is written through it (the memory may be mapped read-only).
///
/// On a device, reads may continue after a tensor is dropped: enqueued work may run later. It has ended once an event
/// that the caller records after it on libtorch's current stream has completed.
pub(crate) struct Borrowed<'a> {
    tensor: Tensor,
    memory: PhantomData<&'a [u8]>,
}

/// A number type that libtorch has under the same layout.
pub(crate) trait Number: bytemuck::Pod {
    /// libtorch's name for it.
    const KIND: Kind;
}

impl Number for i32 {
    const KIND: Kind = Kind::Int;
}

impl Number for f32 {
    const KIND: Kind = Kind::Float;
}

impl Number for i64 {
    const KIND: Kind = Kind::Int64;
}

impl Number for f64 {
    const KIND: Kind = Kind::Double;
}

impl<'a> Borrowed<'a> {
    /// A vector of numbers.
    pub(crate) fn vector<T: Number>(values: &'a [T]) -> Result<Self, TrainError> {
        Self::new(bytemuck::cast_slice(values), T::KIND, &[values.len() as i64])
    }

    /// A table of `rows` × `dim` elements in C order. Refuses another number of bytes, or a start that is not aligned.
    pub(crate) fn table(
        bytes: &'a [u8],
        element: ElementType,
        rows: usize,
        dim: usize,
    ) -> Result<Self, TrainError> {
        Self::array(&ColumnArray::table(bytes, element, rows, dim), "features", TrainDevice::Cpu)
    }

    /// A table of `rows` × `columns` numbers of `kind`, f64 or f32, in C order.
    pub(crate) fn matrix(bytes: &'a [u8], kind: Kind, rows: usize, columns: i64) -> Result<Self, TrainError> {
        let number = if kind == Kind::Double { 8 } else { 4 };
        let needed = (rows as i64).checked_mul(columns).and_then(|numbers| numbers.checked_mul(number));
        if needed != i64::try_from(bytes.len()).ok() || bytes.as_ptr().align_offset(number as usize) != 0 {
            return Err(TrainError::Input(format!(
                "{} bytes are not a table of {rows} × {columns} numbers",
                bytes.len()
            )));
        }
        let kind = if number == 8 { Kind::Double } else { Kind::Float };
        Self::new(bytes, kind, &[rows as i64, columns])
    }

    /// An array of a batch, in host memory or in that of a CUDA device. Refuses a number of bytes other than that of
    /// its rows, or a start that is not aligned.
    pub(crate) fn array(
        array: &ColumnArray<'a>,
        what: &str,
        device: TrainDevice,
    ) -> Result<Self, TrainError> {
        let (element, rows, width) = (array.element, array.rows, array.width);
        let bytes = match array.memory {
            ArrayMemory::Host(bytes) => bytes.len(),
            ArrayMemory::Device(slice) => slice.bytes(),
        };
        let shape: Vec<i64> = [Some(rows), width].into_iter().flatten().map(|size| size as i64).collect();
        let needed = rows.checked_mul(width.unwrap_or(1)).and_then(|n| n.checked_mul(element.bytes()));
        if needed != Some(bytes) {
            let of = width.map_or_else(String::new, |width| format!("rows of {width} "));
            return Err(TrainError::Input(format!(
                "{bytes} bytes of {what} are not {rows} {of}{element} values"
            )));
        }
        let kind = kind_of(element)
            .ok_or_else(|| TrainError::Input(format!("{what}: {element} values are not supported")))?;
        match array.memory {
            ArrayMemory::Host(_) if matches!(device, TrainDevice::Cuda(_)) => Err(TrainError::Input(
                format!("{what} are in host memory, and other arrays of the batch on {device}"),
            )),
            ArrayMemory::Host(bytes) => {
                aligned(bytes.as_ptr() as u64, bytes.len(), element.bytes(), what)?;
                Self::new(bytes, kind, &shape)
            }
            ArrayMemory::Device(slice) => Self::on_device(slice, kind, element.bytes(), &shape, what, device),
        }
    }

    /// A tensor with its own storage, for code that accepts both.
    pub(crate) fn owned(tensor: Tensor) -> Self {
        Self { tensor, memory: PhantomData }
    }

    /// The caller has ensured that `bytes` has the alignment of `kind` and exactly the length of `shape`.
    fn new(bytes: &'a [u8], kind: Kind, shape: &[i64]) -> Result<Self, TrainError> {
        // SAFETY: `f_from_blob` only stores the pointer, in a tensor that has no deleter and so never frees it.
        // libtorch may read shape × strides elements from the start through it. They are contiguous, so these are
        // exactly the bytes of the slice: `vector` passes a slice of T with its own length, and `array` and `matrix`
        // have compared the product without overflow. They are aligned for the kind, by the slice's type or by their
        // checks. Every bit pattern is valid, since all kinds are plain numbers. They stay allocated and unchanged for
        // 'a, which the result carries. No tensor made from it lives longer, and nothing writes: that is the rule on
        // the type, kept by the functions named there. Memory shared with another process is not changed either: a slot
        // in state `reading` belongs to its reader.
        let tensor =
            unsafe { Tensor::f_from_blob(bytes.as_ptr(), shape, &strides(shape), kind, Device::Cpu) }?;
        Ok(Self { tensor, memory: PhantomData })
    }

    /// The caller has ensured that `slice` has exactly the length of `shape`.
    fn on_device(
        slice: DeviceSlice<'a>,
        kind: Kind,
        element_bytes: usize,
        shape: &[i64],
        what: &str,
        device: TrainDevice,
    ) -> Result<Self, TrainError> {
        device.check_slice(&slice, what)?;
        aligned(slice.address(), slice.bytes(), element_bytes, what)?;
        let device = device.torch();
        if slice.bytes() == 0 {
            // libtorch queries the driver for the owner of an address, and the end of a slot need not be mapped.
            return Ok(Self::owned(Tensor::f_empty(shape, (kind, device))?));
        }
        // SAFETY: as in `new`, with a device address instead of a host one. The creator of the slice vouched that this
        // device can read its bytes for 'a, and so can the host under the stand-in driver, whose device addresses are
        // host addresses. Checks here have shown that it is the trainer's device and that the address is aligned for
        // the kind. `array` has checked that there are exactly shape × strides elements. libtorch dereferences the
        // address in kernels of that device only. For an address outside the device's memory, `f_from_blob` itself
        // returns an error, as it queries the driver. The rule on `Trainer::train_batch` orders the reads after the
        // writes.
        let tensor = unsafe {
            Tensor::f_from_blob(slice.address() as *const u8, shape, &strides(shape), kind, device)
        }?;
        Ok(Self { tensor, memory: PhantomData })
    }

    /// The tensor, under the rules on the type.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }
}

/// Refuses values that do not start at a multiple of their size. Without values, any address is valid.
fn aligned(address: u64, bytes: usize, element_bytes: usize, what: &str) -> Result<(), TrainError> {
    if bytes == 0 || address.is_multiple_of(element_bytes as u64) {
        return Ok(());
    }
    Err(TrainError::Input(format!(
        "{what} start at an address that is not a multiple of {element_bytes} bytes"
    )))
}

/// The values of an array in host memory.
pub(crate) fn values<'a, T: Number>(array: &ColumnArray<'a>, what: &str) -> Result<&'a [T], TrainError> {
    let bytes = array.host().unwrap_or_default();
    match bytemuck::try_cast_slice(bytes) {
        _ if bytes.is_empty() && array.rows == 0 => Ok(&[]),
        Ok(values) if kind_of(array.element) == Some(T::KIND) && values.len() == array.rows => Ok(values),
        _ => Err(TrainError::Input(format!(
            "{what}: {} bytes at {:?} are not {} values of {:?}",
            bytes.len(),
            bytes.as_ptr(),
            array.rows,
            T::KIND
        ))),
    }
}

/// libtorch's name for a type of values; `None` for uint16, which `tch` has no name for and no layer reads.
fn kind_of(element: Element) -> Option<Kind> {
    Some(match element {
        Element::U16 => return None,
        Element::I64 => Kind::Int64,
        Element::I32 => Kind::Int,
        Element::F32 => Kind::Float,
        Element::F16 => Kind::Half,
        Element::Bf16 => Kind::BFloat16,
        Element::E4m3 => Kind::Float8e4m3fn,
        Element::U8 => Kind::Uint8,
        Element::I8 => Kind::Int8,
    })
}

/// Strides of a contiguous tensor.
fn strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * shape[i + 1].max(1);
    }
    strides
}
