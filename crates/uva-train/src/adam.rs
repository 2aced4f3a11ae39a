//! Adam over tensors of our own, so that a checkpoint can hold its moments.

use crate::TrainError;
use tch::Tensor;

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// Adam (Kingma & Ba 2015) with the L2 penalty added to the gradient, as `torch.optim.Adam(weight_decay=…)` does.
pub(crate) struct Adam {
    learning_rate: f64,
    weight_decay: f64,
    /// Steps done; the bias corrections depend on it.
    pub(crate) steps: u64,
    /// Running means of the gradients and of their squares, one each a parameter.
    pub(crate) first_moments: Vec<Tensor>,
    pub(crate) second_moments: Vec<Tensor>,
}

impl Adam {
    pub(crate) fn new(
        parameters: &[(String, Tensor)],
        learning_rate: f64,
        weight_decay: f64,
    ) -> Result<Self, TrainError> {
        let zeros = || -> Result<Vec<Tensor>, TrainError> {
            parameters.iter().map(|(_, p)| Ok(p.f_detach()?.f_zeros_like()?)).collect()
        };
        Ok(Self { learning_rate, weight_decay, steps: 0, first_moments: zeros()?, second_moments: zeros()? })
    }

    /// One step, in place. `gradients` are in the order of `parameters`.
    pub(crate) fn step(
        &mut self,
        parameters: &[(String, Tensor)],
        gradients: Vec<Tensor>,
    ) -> Result<(), TrainError> {
        let _no_grad = tch::no_grad_guard();
        self.steps += 1;
        let correction1 = 1.0 - BETA1.powf(self.steps as f64);
        let correction2 = 1.0 - BETA2.powf(self.steps as f64);
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
}
