//! An operation of libtorch that tch does not bind, called by name through libtorch's stable C interface
//! (`torch/csrc/stable/c/shim.h` of 2.11).

#![allow(unsafe_code)]

use crate::TrainError;
use std::ffi::{c_char, c_int, c_void};
use tch::{TchError, Tensor};

/// libtorch's owned handle of a tensor, and of a list.
type Handle = *mut c_void;

/// An argument as the dispatcher takes it: a number's bits, or a handle that the call consumes.
type StableValue = u64;

/// TORCH_ABI_VERSION of libtorch 2.11.0: major, minor and patch in the upper bytes.
const VERSION: u64 = 2 << 56 | 11 << 48;

// Of libtorch_cpu, which every program with this crate links, and (the last) of libstdc++, which libtorch needs.
unsafe extern "C" {
    fn aoti_torch_new_tensor_handle(tensor: Handle, handle: *mut Handle) -> c_int;
    fn torch_new_list_reserve_size(size: usize, list: *mut Handle) -> c_int;
    fn torch_list_push_back(list: Handle, element: StableValue) -> c_int;
    fn torch_call_dispatcher(
        name: *const c_char,
        overload: *const c_char,
        stack: *mut StableValue,
        version: u64,
    ) -> c_int;
    /// `operator new(size_t)`.
    #[link_name = "_Znwm"]
    fn operator_new(bytes: usize) -> *mut StableValue;
}

/// One argument of an operation.
enum Argument<'t> {
    Tensors(&'t [Tensor]),
    OptionalTensor(Option<&'t Tensor>),
    Float(f64),
    Bool(bool),
}

impl Argument<'_> {
    fn value(&self) -> Result<StableValue, TrainError> {
        Ok(match self {
            Self::Float(number) => number.to_bits(),
            Self::Bool(choice) => u64::from(*choice),
            Self::OptionalTensor(None) => 0,
            Self::OptionalTensor(Some(tensor)) => {
                let handle = handle(tensor)?;
                // SAFETY: 8 bytes of C++'s allocator, which throws rather than return null; the call that consumes the
                // argument frees them by C++'s `delete`.
                let place = unsafe { operator_new(size_of::<StableValue>()) };
                // SAFETY: as long as a value, aligned for any type, and not shared.
                unsafe { place.write(handle as StableValue) };
                place as StableValue
            }
            Self::Tensors(tensors) => {
                let mut list = std::ptr::null_mut();
                // SAFETY: writes one handle.
                checked("torch_new_list_reserve_size", unsafe {
                    torch_new_list_reserve_size(tensors.len(), &mut list)
                })?;
                for tensor in *tensors {
                    let element = handle(tensor)? as StableValue;
                    // SAFETY: the list was made above, and takes over the new handle.
                    checked("torch_list_push_back", unsafe { torch_list_push_back(list, element) })?;
                }
                list as StableValue
            }
        })
    }
}

/// A separate handle for a tensor; the tensor's memory is shared.
fn handle(tensor: &Tensor) -> Result<Handle, TrainError> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: tch's pointer is one to an at::Tensor, which is what libtorch's handles are. It is read, and one handle
    // is written.
    checked("aoti_torch_new_tensor_handle", unsafe {
        aoti_torch_new_tensor_handle(tensor.as_ptr().cast_mut().cast(), &mut handle)
    })?;
    Ok(handle)
}

/// One step of Adam over all parameters at once, in place: `aten::_fused_adam_`. The lists are parameters, gradients,
/// first and second moments and step counts (f32 \[1\] each, this step's included), of one length; tensors at one place
/// have one shape and are contiguous. The numbers are the learning rate, β₁, β₂, the L2 penalty and ε. Where `skipped`,
/// f32 \[1\], is 1, nothing is changed.
///
/// # Errors
/// [`TrainError::Torch`]; libtorch has written its reason to standard error. What the arguments hold then leaks.
pub(crate) fn fused_adam(
    [parameters, gradients, first, second, steps]: [&[Tensor]; 5],
    [learning_rate, beta1, beta2, weight_decay, epsilon]: [f64; 5],
    skipped: Option<&Tensor>,
) -> Result<(), TrainError> {
    // Of the schema in libtorch 2.11, in its order: Tensor[] self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs,
    // state_steps; float lr, beta1, beta2, weight_decay, eps; bool amsgrad, maximize; Tensor? grad_scale, found_inf.
    let arguments = [
        Argument::Tensors(parameters),
        Argument::Tensors(gradients),
        Argument::Tensors(first),
        Argument::Tensors(second),
        Argument::Tensors(&[]),
        Argument::Tensors(steps),
        Argument::Float(learning_rate),
        Argument::Float(beta1),
        Argument::Float(beta2),
        Argument::Float(weight_decay),
        Argument::Float(epsilon),
        Argument::Bool(false),
        Argument::Bool(false),
        Argument::OptionalTensor(None),
        Argument::OptionalTensor(skipped),
    ];
    let stack: Result<Vec<_>, _> = arguments.iter().map(Argument::value).collect();
    let (name, overload) = (c"aten::_fused_adam_", c"");
    // SAFETY: both names end with a zero byte, and the stack is the schema's. It has no results, so nothing is written
    // to the stack. An exception inside becomes the result.
    let code =
        unsafe { torch_call_dispatcher(name.as_ptr(), overload.as_ptr(), stack?.as_mut_ptr(), VERSION) };
    checked("_fused_adam_", code)
}

fn checked(call: &str, code: c_int) -> Result<(), TrainError> {
    if code == 0 { Ok(()) } else { Err(TchError::Torch(format!("{call} failed")).into()) }
}
