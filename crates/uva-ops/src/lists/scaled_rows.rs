//! Rows added to rows, times a number.

crate::vectorized! {
    /// Adds each value, times `factor`, to the sum at its place, and rounds once.
    pub fn add_scaled(values: &[f32], factor: f32, sums: &mut [f32]) {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = value.mul_add(factor, *sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Vectors;

    #[test]
    fn a_product_is_added_and_rounded_once_with_all_vectors() {
        let values: Vec<f32> = (0..67).map(|at| 1.0 + at as f32 / 3.0).collect();
        let before: Vec<f32> = (0..67).map(|at| -1.0 / (at + 1) as f32).collect();
        let expected: Vec<f32> = values.iter().zip(&before).map(|(v, sum)| v.mul_add(0.1, *sum)).collect();
        for vectors in Vectors::available() {
            let mut sums = before.clone();
            add_scaled(vectors, &values, 0.1, &mut sums);
            assert_eq!(sums, expected, "{vectors}");
        }
    }
}
