//! The matrix products of layers, in the precision of the run.

#![allow(unsafe_code)]

use crate::TrainError;
use libloading::os::unix::Library;
use std::ffi::{c_float, c_int};
use std::sync::OnceLock;
use tch::{Kind, Tensor};
use uva_model::MatmulPrecision;

/// CBLAS's names of row-major matrices, and of one as it is or transposed.
const ROW_MAJOR: c_int = 101;
const AS_IS: c_int = 111;
const TRANSPOSED: c_int = 112;

/// `cblas_gemm_bf16bf16f32`: C ← α·op(A)·op(B) + β·C of row-major matrices. Its arguments are the layout, what op is for A
/// and for B, rows of C, columns of C, the length of the sums, α, A and its row length, B and its row length, β, C and its
/// row length.
type Gemm = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_float,
    *const u16,
    c_int,
    *const u16,
    c_int,
    c_float,
    *mut f32,
    c_int,
);

/// How a layer multiplies matrices.
#[derive(Clone, Copy)]
pub(crate) enum Products {
    /// The tensors' own numbers, by libtorch.
    Own,
    /// Factors of float32 rounded to bfloat16, with sums in float32, by oneMKL, which libtorch contains. libtorch's own
    /// products of bfloat16 (oneDNN's) compile a kernel for each number of rows: 4 to 5 ms, for products of 1 to 2 ms, and
    /// every batch has another number.
    Bfloat16(Gemm),
}

/// A matrix, converted for products.
pub(crate) struct Factor(Tensor);

impl Products {
    /// Products of this precision, on the CPU if it is not the tensors' own.
    ///
    /// # Errors
    /// [`TrainError::Input`] for a libtorch without oneMKL.
    pub(crate) fn of(precision: MatmulPrecision) -> Result<Self, TrainError> {
        match precision {
            MatmulPrecision::Float32 => Ok(Self::Own),
            MatmulPrecision::Bfloat16 => {
                let missing = "`matmul_precision=bfloat16` requires a libtorch with oneMKL, as PyPI has it";
                gemm().map(Self::Bfloat16).ok_or_else(|| TrainError::Input(missing.to_owned()))
            }
        }
    }

    /// The matrix as a factor. Its own memory is shared if it needs no conversion.
    pub(crate) fn factor(self, matrix: &Tensor) -> Result<Factor, TrainError> {
        Ok(Factor(match self {
            Self::Own => matrix.shallow_clone(),
            Self::Bfloat16(_) => matrix.f_to_kind(Kind::BFloat16)?.f_contiguous()?,
        }))
    }

    /// x Wᵀ + b.
    pub(crate) fn linear(
        self,
        x: &Factor,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<Tensor, TrainError> {
        match self {
            Self::Own => Ok(x.0.f_linear(weight, bias)?),
            Self::Bfloat16(gemm) => {
                let shape = [x.0.size2()?.0, weight.size2()?.0];
                let out = Tensor::f_empty(shape, (Kind::Float, x.0.device()))?;
                let out = if let Some(bias) = bias { copied(out, bias)? } else { out };
                let weight = self.factor(weight)?;
                multiply(gemm, (x, AS_IS), (&weight, TRANSPOSED), out, bias.is_some())
            }
        }
    }

    /// out + x Wᵀ, in the memory of `out`.
    pub(crate) fn add(self, mut out: Tensor, x: &Factor, weight: &Tensor) -> Result<Tensor, TrainError> {
        match self {
            Self::Own => Ok(out.f_addmm_(&x.0, &weight.f_tr()?)?),
            Self::Bfloat16(gemm) => {
                multiply(gemm, (x, AS_IS), (&self.factor(weight)?, TRANSPOSED), out, true)
            }
        }
    }

    /// gᵀ x: the gradient of a weight.
    pub(crate) fn of_weight(self, gradient: &Factor, x: &Factor) -> Result<Tensor, TrainError> {
        match self {
            Self::Own => Ok(gradient.0.f_tr()?.f_mm(&x.0)?),
            Self::Bfloat16(gemm) => {
                let shape = [gradient.0.size2()?.1, x.0.size2()?.1];
                let out = Tensor::f_empty(shape, (Kind::Float, x.0.device()))?;
                multiply(gemm, (gradient, TRANSPOSED), (x, AS_IS), out, false)
            }
        }
    }

    /// g W: the gradient of rows.
    pub(crate) fn of_rows(self, gradient: &Factor, weight: &Tensor) -> Result<Tensor, TrainError> {
        match self {
            Self::Own => Ok(gradient.0.f_mm(weight)?),
            Self::Bfloat16(gemm) => {
                let shape = [gradient.0.size2()?.0, weight.size2()?.1];
                let out = Tensor::f_empty(shape, (Kind::Float, gradient.0.device()))?;
                multiply(gemm, (gradient, AS_IS), (&self.factor(weight)?, AS_IS), out, false)
            }
        }
    }

    /// out + g W, in the memory of `out`.
    pub(crate) fn add_of_rows(
        self,
        mut out: Tensor,
        gradient: &Factor,
        weight: &Tensor,
    ) -> Result<(), TrainError> {
        match self {
            Self::Own => drop(out.f_addmm_(&gradient.0, weight)?),
            Self::Bfloat16(gemm) => {
                drop(multiply(gemm, (gradient, AS_IS), (&self.factor(weight)?, AS_IS), out, true)?);
            }
        }
        Ok(())
    }
}

/// `to` with a copy of the row in each of its rows.
fn copied(mut to: Tensor, row: &Tensor) -> Result<Tensor, TrainError> {
    to.f_copy_(row)?;
    Ok(to)
}

/// op(a) op(b), or `out` plus this.
fn multiply(
    gemm: Gemm,
    (a, op_a): (&Factor, c_int),
    (b, op_b): (&Factor, c_int),
    out: Tensor,
    is_added: bool,
) -> Result<Tensor, TrainError> {
    let size = |factor: &Factor| Ok::<_, TrainError>(factor.0.size2()?);
    let ((rows_a, columns_a), (rows_b, columns_b)) = (size(a)?, size(b)?);
    let (rows, length) = if op_a == AS_IS { (rows_a, columns_a) } else { (columns_a, rows_a) };
    let (length_b, columns) = if op_b == AS_IS { (rows_b, columns_b) } else { (columns_b, rows_b) };
    if length != length_b || out.size2()? != (rows, columns) || !out.is_contiguous() {
        let shapes = (a.0.size(), b.0.size(), out.size());
        return Err(TrainError::Input(format!("a product of matrices that do not fit: {shapes:?}")));
    }
    let narrow = |number: i64| {
        let too_many = || TrainError::Input(format!("a matrix with {number} rows or columns"));
        c_int::try_from(number).map_err(|_| too_many())
    };
    let sizes = (narrow(rows)?, narrow(columns)?, narrow(length)?);
    let (row_a, row_b, row_out) = (narrow(columns_a)?.max(1), narrow(columns_b)?.max(1), sizes.1.max(1));
    let (added, a, b) = (f32::from(u8::from(is_added)), a.0.data_ptr(), b.0.data_ptr());
    // SAFETY: `factor` has made both factors contiguous bfloat16 tensors in host memory, and `out` is a contiguous float32
    // tensor there (those of a trainer with `Bfloat16` are; the launcher refuses the precision on a GPU). The sizes are
    // those of the tensors, checked above to fit. `gemm` writes only `out`, whose memory no factor shares. Without
    // elements there is nothing to read or write.
    unsafe {
        gemm(
            ROW_MAJOR,
            op_a,
            op_b,
            sizes.0,
            sizes.1,
            sizes.2,
            1.0,
            a.cast_const().cast(),
            row_a,
            b.cast_const().cast(),
            row_b,
            added,
            out.data_ptr().cast(),
            row_out,
        );
    }
    Ok(out)
}

/// oneMKL's product, which libtorch's library for x86-64 exports.
fn gemm() -> Option<Gemm> {
    static GEMM: OnceLock<Option<Gemm>> = OnceLock::new();
    // SAFETY: the type is that of the function in oneMKL's `mkl_cblas.h` with 32-bit integers. Libraries of this process
    // are never closed.
    *GEMM.get_or_init(|| unsafe {
        Library::this().get::<Gemm>("cblas_gemm_bf16bf16f32").ok().map(|symbol| *symbol)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    /// Small integers, which bfloat16 represents, and so do sums of a few of their products.
    fn integers(rows: i64, columns: i64, step: i64) -> Tensor {
        let values: Vec<f32> = (0..rows * columns).map(|place| ((place * step) % 15 - 7) as f32).collect();
        Tensor::from_slice(&values).reshape([rows, columns])
    }

    #[test]
    fn products_are_equal_where_rounding_factors_changes_nothing() {
        for (rows, inputs, outputs) in [(1, 1, 1), (7, 3, 5), (64, 100, 47), (0, 4, 3)] {
            let (x, weight, gradient) =
                (integers(rows, inputs, 4), integers(outputs, inputs, 7), integers(rows, outputs, 11));
            let bias = integers(1, outputs, 2).squeeze_dim(0);
            let all = |products: Products| {
                let (of_x, of_gradient) = (products.factor(&x).unwrap(), products.factor(&gradient).unwrap());
                let of_rows = products.of_rows(&of_gradient, &weight).unwrap();
                products.add_of_rows(of_rows.shallow_clone(), &of_gradient, &weight).unwrap();
                let linear = products.linear(&of_x, &weight, Some(&bias)).unwrap();
                [
                    products.linear(&of_x, &weight, None).unwrap(),
                    products.add(linear.copy(), &of_x, &weight).unwrap(),
                    linear,
                    products.of_weight(&of_gradient, &of_x).unwrap(),
                    of_rows,
                ]
            };
            let rounded = all(Products::of(MatmulPrecision::Bfloat16).unwrap());
            for (own, rounded) in all(Products::Own).iter().zip(&rounded) {
                assert!(own.equal(rounded), "{rows} {inputs} {outputs}: {own} {rounded}");
            }
        }
    }

    #[test]
    fn matrices_that_do_not_fit_are_refused() {
        let products = Products::of(MatmulPrecision::Bfloat16).unwrap();
        let x = products.factor(&integers(4, 3, 1)).unwrap();
        assert!(products.linear(&x, &integers(2, 5, 1), None).is_err());
        assert!(
            products.add(Tensor::zeros([4, 3], (Kind::Float, Device::Cpu)), &x, &integers(2, 3, 1)).is_err()
        );
    }
}
