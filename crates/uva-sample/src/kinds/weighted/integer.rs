//! Draws with replacement, by integer weights.

use crate::philox::PhiloxStream;

/// Whether an entry of this weight exists for the sampler. (Opening the dataset rejects weights that are not finite.)
#[inline]
pub(super) fn exists(weight: f32) -> bool {
    weight > 0.0 && weight < f32::INFINITY
}

/// Memory for draws from one list.
pub(super) struct DrawBuffers {
    /// The drawn number, and the number of the draw.
    drawn: Vec<(u64, u32)>,
    /// The place that each draw hit.
    places: Vec<u32>,
}

/// The factor from the weights of a list to integers: 2^(31 − e), if the largest weight is in 2^e to 2^(e + 1).
fn scale(weights: &[f32]) -> f64 {
    let largest = weights.iter().copied().filter(|&weight| exists(weight)).fold(0.0, f32::max);
    // Every f32 above 0 is a normal double.
    let e = (f64::from(largest).to_bits() >> 52) as i64 - 1023;
    f64::from_bits(((1023 + 31 - e) as u64) << 52)
}

/// The integer weight: below 2³², and 0 for an entry that does not exist.
#[inline]
fn integer(weight: f32, scale: f64) -> u64 {
    // The product is exact, and the conversion to an integer truncates.
    if exists(weight) { (f64::from(weight) * scale) as u64 } else { 0 }
}

impl DrawBuffers {
    /// For up to `most` draws from one list.
    pub(super) fn new(most: usize) -> Self {
        Self { drawn: Vec::with_capacity(most), places: vec![0; most] }
    }

    /// The places of `count` draws from a list of these weights, of which at least one is positive; `count` is no more
    /// than there is memory for.
    pub(super) fn draw(&mut self, mut stream: PhiloxStream, weights: &[f32], count: usize) -> &[u32] {
        let scale = scale(weights);
        // Fewer than 2^32 numbers below 2^32.
        let total: u64 = weights.iter().map(|&weight| integer(weight, scale)).sum();
        self.drawn.clear();
        self.drawn.extend((0..count as u32).map(|number| (stream.bounded_u64(total), number)));
        self.drawn.sort_unstable();
        let places = &mut self.places[..count];
        let mut end = 0;
        let mut entries = weights.iter().zip(0..);
        let mut place = 0;
        for &(drawn, number) in &self.drawn {
            // The last end is the total, which exceeds every drawn number.
            while end <= drawn
                && let Some((&weight, next)) = entries.next()
            {
                end += integer(weight, scale);
                place = next;
            }
            places[number as usize] = place;
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_weights_keep_the_proportions_of_all_but_the_lightest() {
        let weights = [3.0, 0.0, -0.0, 1.5, 1e-3, 1e-12];
        let scale = scale(&weights);
        let integers = weights.map(|weight| integer(weight, scale));
        assert_eq!(integers, [3 << 30, 0, 0, 3 << 29, (1e-3_f32 as f64 * 2_f64.powi(30)) as u64, 0]);
    }

    #[test]
    fn the_largest_weight_fills_its_32_bits_whatever_it_is() {
        for weight in [f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), 1.0, 0.7] {
            let integer = integer(weight, scale(&[weight]));
            assert!((1 << 31..1 << 32).contains(&integer), "{weight} becomes {integer}");
        }
    }
}
