//! Adam over a row, with the order of operations of torch's SparseAdam.

/// The settings of Adam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowAdam {
    /// How much of each moment a step keeps.
    pub betas: (f64, f64),
    /// What is added to the root of the second moment.
    pub epsilon: f64,
}

impl Default for RowAdam {
    fn default() -> Self {
        Self { betas: (0.9, 0.999), epsilon: 1e-8 }
    }
}

impl RowAdam {
    /// The factors of step `step`, counted from 1: computed in double precision, each rounded once.
    #[must_use]
    pub fn step(self, step: u64, learning_rate: f64) -> RowAdamStep {
        // `powf`, as Python and torch have it: `powi` rounds otherwise.
        let kept = |beta: f64| 1.0 - beta.powf(step as f64);
        RowAdamStep {
            first: (1.0 - self.betas.0) as f32,
            second: (1.0 - self.betas.1) as f32,
            epsilon: self.epsilon as f32,
            factor: -(learning_rate * kept(self.betas.1).sqrt() / kept(self.betas.0)) as f32,
        }
    }
}

/// The factors of one step, the same for all rows. Made by [`RowAdam::step`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowAdamStep {
    first: f32,
    second: f32,
    epsilon: f32,
    factor: f32,
}

crate::vectorized! {
    /// One step for a row and its moments. Every operation is rounded to float32 on its own, as in torch.optim.SparseAdam
    /// on the CPU. Moments equal its moments bit for bit, and values too where the library of torch rounds roots
    /// correctly: MKL does not for one number in 140.
    pub fn adam(row: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32], step: RowAdamStep) {
        for (((value, first), second), &gradient) in row.iter_mut().zip(first).zip(second).zip(gradient) {
            *first += (gradient - *first) * step.first;
            *second += (gradient * gradient - *second) * step.second;
            *value += step.factor * (*first / (second.sqrt() + step.epsilon));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Vectors;

    #[test]
    fn steps_follow_the_formula_with_every_set_of_instructions() {
        // crates/uva-py/tests/models/test_embedding.py compares bits with torch's; here it is the formula in f64.
        let gradients: Vec<Vec<f32>> = (0..5)
            .map(|step| (0..37).map(|c| ((c * 7 + step * 3) % 11) as f32 / 8.0 - 0.6).collect())
            .collect();
        let run = |vectors| {
            let (mut row, mut first, mut second) = (vec![0.5_f32; 37], vec![0.0; 37], vec![0.0; 37]);
            for (gradient, number) in gradients.iter().zip(1..) {
                let step = RowAdam::default().step(number, 0.01);
                adam(vectors, &mut row, &mut first, &mut second, gradient, step);
            }
            row
        };
        let portable = run(Vectors::PORTABLE);
        assert!(Vectors::available().all(|vectors| run(vectors) == portable));
        for (column, &found) in portable.iter().enumerate() {
            let (mut value, mut first, mut second) = (0.5_f64, 0.0_f64, 0.0_f64);
            for (gradient, number) in gradients.iter().zip(1..) {
                let gradient = f64::from(gradient[column]);
                first = 0.9 * first + 0.1 * gradient;
                second = 0.999 * second + 0.001 * gradient * gradient;
                let (mean, square) =
                    (first / (1.0 - 0.9_f64.powi(number)), second / (1.0 - 0.999_f64.powi(number)));
                // torch adds epsilon before the correction, which matters little here.
                value -= 0.01 * mean / (square.sqrt() + 1e-8);
            }
            assert!((f64::from(found) - value).abs() < 1e-5, "column {column}: {found} for {value}");
        }
    }
}
