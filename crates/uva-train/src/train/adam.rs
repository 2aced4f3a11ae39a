//! Adam with tensors of this crate, so that a checkpoint can store its moments.

use crate::TrainError;
use crate::torch::device::TrainDevice;
use crate::torch::dispatcher::fused_adam;
use tch::{Kind, Tensor};

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// Adam (Kingma & Ba 2015) with the L2 penalty added to the gradient, as `torch.optim.Adam(weight_decay=…)` does.
pub(crate) struct Adam {
    learning_rate: f64,
    weight_decay: f64,
    /// Number of steps, for the bias corrections.
    steps: Steps,
    /// Running means of the gradients and of their squares, one of each per parameter.
    pub(crate) first_moments: Vec<Tensor>,
    pub(crate) second_moments: Vec<Tensor>,
}

/// The number of steps, and where it is stored.
enum Steps {
    /// On the host: each step is some operations per parameter.
    Host(u64),
    /// On the device, which may skip a step that the host has enqueued: f32 [1], exact up to 2²⁴. A step is libtorch's
    /// fused kernel over all parameters.
    Device(Tensor),
}

impl Adam {
    pub(crate) fn new(
        parameters: &[(String, Tensor)],
        learning_rate: f64,
        weight_decay: f64,
        device: TrainDevice,
    ) -> Result<Self, TrainError> {
        let zeros = || -> Result<Vec<Tensor>, TrainError> {
            parameters.iter().map(|(_, p)| Ok(p.f_detach()?.f_zeros_like()?)).collect()
        };
        let steps = match device {
            TrainDevice::Cpu => Steps::Host(0),
            TrainDevice::StandIn | TrainDevice::Cuda(_) => {
                Steps::Device(Tensor::f_zeros([1], (Kind::Float, device.torch()))?)
            }
        };
        Ok(Self { learning_rate, weight_decay, steps, first_moments: zeros()?, second_moments: zeros()? })
    }

    /// Steps done. On a device this waits for all work enqueued before.
    pub(crate) fn steps(&self) -> Result<u64, TrainError> {
        Ok(match &self.steps {
            Steps::Host(steps) => *steps,
            Steps::Device(steps) => steps.f_double_value(&[0])? as u64,
        })
    }

    pub(crate) fn set_steps(&mut self, done: u64) -> Result<(), TrainError> {
        match &mut self.steps {
            Steps::Host(steps) => *steps = done,
            Steps::Device(steps) => drop(steps.f_fill_(done as f64)?),
        }
        Ok(())
    }

    /// One step, in place. `gradients` are in the order of `parameters`. If `skipped`, a number on the device, is 1,
    /// nothing changes, whatever the gradients are; the host does not wait for it.
    pub(crate) fn step(
        &mut self,
        parameters: &[(String, Tensor)],
        gradients: Vec<Tensor>,
        skipped: Option<&Tensor>,
    ) -> Result<(), TrainError> {
        let _no_grad = tch::no_grad_guard();
        match &mut self.steps {
            Steps::Host(steps) => *steps += 1,
            Steps::Device(steps) => {
                let _ = steps.f_add_scalar_(1.0)?;
                if let Some(skipped) = skipped {
                    let _ = steps.f_sub_(skipped)?;
                }
            }
        }
        match self.steps {
            Steps::Host(steps) => self.step_on_host(steps, parameters, gradients),
            Steps::Device(_) => self.fused_step(parameters, &gradients, skipped),
        }
    }

    fn step_on_host(
        &mut self,
        steps: u64,
        parameters: &[(String, Tensor)],
        gradients: Vec<Tensor>,
    ) -> Result<(), TrainError> {
        let correction1 = 1.0 - BETA1.powf(steps as f64);
        let correction2 = 1.0 - BETA2.powf(steps as f64);
        let moments = self.first_moments.iter_mut().zip(&mut self.second_moments);
        for (((_, parameter), gradient), (first, second)) in parameters.iter().zip(gradients).zip(moments) {
            let mut parameter = parameter.shallow_clone();
            let gradient = if self.weight_decay > 0.0 {
                gradient.f_add(&parameter.f_mul_scalar(self.weight_decay)?)?
            } else {
                gradient
            };
            let _ = first.f_lerp_(&gradient, 1.0 - BETA1)?;
            let _ = second.f_lerp_(&gradient.f_square()?, 1.0 - BETA2)?;
            let mut divisor = second.f_sqrt()?;
            let _ = divisor.f_div_scalar_(correction2.sqrt())?.f_add_scalar_(EPSILON)?;
            let step = first.f_mul_scalar(-self.learning_rate / correction1)?;
            let _ = parameter.f_addcdiv_(&step, &divisor)?;
        }
        Ok(())
    }

    /// One step as a single operation over all parameters.
    fn fused_step(
        &self,
        parameters: &[(String, Tensor)],
        gradients: &[Tensor],
        skipped: Option<&Tensor>,
    ) -> Result<(), TrainError> {
        let Steps::Device(steps) = &self.steps else { unreachable!("a step of the host's") };
        let parameters: Vec<Tensor> = parameters.iter().map(|(_, p)| p.shallow_clone()).collect();
        // The kernel walks all four lists in the same way, so their strides must be equal.
        let gradients: Result<Vec<Tensor>, _> = gradients.iter().map(Tensor::f_contiguous).collect();
        let gradients = gradients?;
        let steps: Vec<Tensor> = parameters.iter().map(|_| steps.shallow_clone()).collect();
        let lists = [&parameters[..], &gradients, &self.first_moments, &self.second_moments, &steps];
        fused_adam(lists, [self.learning_rate, BETA1, BETA2, self.weight_decay, EPSILON], skipped)
    }
}
