//! Memory of a slot or a mapped table, seen as a tensor without a copy. The one file of this crate with `unsafe`.

#![allow(unsafe_code)]

use crate::TrainError;
use std::marker::PhantomData;
use tch::{Device, Kind, Tensor};
use uva_graph::ElementType;

/// A tensor over memory that somebody else owns.
///
/// libtorch knows no lifetimes: a shallow clone, a view, or an autograd graph that saved the tensor could go on
/// reading after `'a`. So this type stays inside the crate, and whoever calls [`Borrowed::tensor`] keeps two rules:
/// every tensor made from it is dropped before the public function that was given the memory returns (`train_batch`,
/// `evaluate_batch` and `evaluate_full`, which return numbers and store no tensor but parameters and moments, whose
/// storage is their own), and nothing is written through it (the memory may be mapped read-only).
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

impl Number for i64 {
    const KIND: Kind = Kind::Int64;
}

impl<'a> Borrowed<'a> {
    /// A vector of numbers.
    pub(crate) fn vector<T: Number>(values: &'a [T]) -> Result<Self, TrainError> {
        Self::new(bytemuck::cast_slice(values), T::KIND, &[values.len() as i64])
    }

    /// A table of `rows` × `dim` elements in C order. Refuses bytes that are not as many, or do not start where
    /// such elements may.
    pub(crate) fn table(
        bytes: &'a [u8],
        element: ElementType,
        rows: usize,
        dim: usize,
    ) -> Result<Self, TrainError> {
        let expected = rows.checked_mul(dim).and_then(|n| n.checked_mul(element.bytes()));
        if expected != Some(bytes.len()) {
            return Err(TrainError::Input(format!(
                "{} bytes of features are not {rows} rows of {dim} {} elements",
                bytes.len(),
                element.name()
            )));
        }
        if bytes.as_ptr().align_offset(element.bytes()) != 0 {
            return Err(TrainError::Input(format!(
                "feature rows start at an address that is not a multiple of {} bytes",
                element.bytes()
            )));
        }
        let kind = match element {
            ElementType::F32 => Kind::Float,
            ElementType::F16 => Kind::Half,
            ElementType::Bf16 => Kind::BFloat16,
            ElementType::U8 => Kind::Uint8,
            ElementType::I8 => Kind::Int8,
        };
        Self::new(bytes, kind, &[rows as i64, dim as i64])
    }

    /// The caller has made sure that `bytes` has the alignment of `kind` and just the length that `shape` says.
    fn new(bytes: &'a [u8], kind: Kind, shape: &[i64]) -> Result<Self, TrainError> {
        let mut strides = vec![1; shape.len()];
        for i in (0..shape.len().saturating_sub(1)).rev() {
            strides[i] = strides[i + 1] * shape[i + 1].max(1);
        }
        // SAFETY: `f_from_blob` only stores the pointer, in a tensor that has no deleter and so never frees it.
        // What libtorch may read through it is shape × strides elements from the start: contiguous, so just the
        // bytes of the slice (`vector` passes a slice of T with its own length, `table` has compared the product
        // without overflow), aligned for the kind by the slice's type or by `table`'s check, and valid for every
        // bit pattern, since all kinds are plain numbers. They stay allocated and unchanged for 'a, which the
        // result carries; that no tensor made from it lives longer, and that nothing writes, is the rule on the
        // type, kept by the three functions named there. Memory shared with another process is not changed either:
        // a slot in state `reading` belongs to its reader.
        let tensor = unsafe { Tensor::f_from_blob(bytes.as_ptr(), shape, &strides, kind, Device::Cpu) }?;
        Ok(Self { tensor, memory: PhantomData })
    }

    /// The tensor, under the rules on the type.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }
}
