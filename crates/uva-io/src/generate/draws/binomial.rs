//! Binomial random numbers: list lengths of graphs whose edges are drawn independently.

use super::random::RandomStream;

/// From this mean on, a normal number is as good as the sum that it replaces.
const NORMAL_FROM: f64 = 32.0;

/// The largest number that inversion returns. At a mean of 32, the probability of more is 10⁻⁵⁰.
const MOST_BY_INVERSION: u64 = 160;

/// A number of Binomial(`n`, `p`). Below a mean of 32 it is exact except for rounding (of n · 2⁻⁵³ in the probability
/// of none). Above, it is a rounded normal number, off by less than a hundredth of a standard deviation.
///
/// It uses only +, −, ×, ÷ and √, each correctly rounded, so it is the same on every machine.
pub(crate) fn binomial(n: u64, p: f64, stream: &mut RandomStream) -> u64 {
    if n == 0 || p <= 0.0 {
        return 0;
    }
    if p >= 1.0 {
        return n;
    }
    if p > 0.5 {
        return n - binomial(n, 1.0 - p, stream);
    }
    let mean = n as f64 * p;
    if mean < NORMAL_FROM {
        return by_inversion(n, p, stream);
    }
    // The sum of twelve uniform numbers, whose range is six standard deviations on either side.
    let normal = f64::from(stream.normal()) + f64::from(stream.normal()) + f64::from(stream.normal());
    let drawn = mean + (mean * (1.0 - p)).sqrt() * normal / 3.0_f64.sqrt();
    // A negative number becomes 0 by the cast.
    ((drawn + 0.5) as u64).min(n)
}

/// Subtracts the probabilities of 0, 1, 2, … from a uniform number until it is used up.
fn by_inversion(n: u64, p: f64, stream: &mut RandomStream) -> u64 {
    let odds = p / (1.0 - p);
    let most = n.min(MOST_BY_INVERSION);
    let mut left = stream.unit();
    let mut chance = power(1.0 - p, n);
    let mut drawn = 0;
    while left >= chance && drawn < most {
        left -= chance;
        drawn += 1;
        chance *= odds * (n - drawn + 1) as f64 / drawn as f64;
    }
    drawn
}

/// `base` to the power of `exponent`, by squaring: a library's result may differ in its last bit between machines.
fn power(base: f64, mut exponent: u64) -> f64 {
    let (mut result, mut square) = (1.0, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::random::GeneratorPurpose;
    use super::*;

    #[test]
    fn mean_and_variance_are_those_of_the_distribution_around_every_case() {
        let cases = [
            (1, 0.3),
            (10, 0.5),
            (40, 0.7),
            (50, 0.999),
            (1000, 0.03),
            (1000, 0.033),
            (1000, 0.4),
            (1_000_000_000, 2e-8),
            (1 << 40, 1e-9),
        ];
        for (n, p) in cases {
            let mut stream = RandomStream::new(5, GeneratorPurpose::Degree, n);
            let draws: Vec<f64> = (0..100_000).map(|_| binomial(n, p, &mut stream) as f64).collect();
            let count = draws.len() as f64;
            let mean = draws.iter().sum::<f64>() / count;
            let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
            let (expected, spread) = (n as f64 * p, n as f64 * p * (1.0 - p));
            // Five standard errors of the mean; of the variance about as many.
            assert!((mean - expected).abs() < 5.0 * (spread / count).sqrt(), "{n}, {p}: mean {mean}");
            assert!((variance / spread - 1.0).abs() < 0.04, "{n}, {p}: variance {variance} for {spread}");
            assert!(draws.iter().all(|&x| x <= n as f64), "{n}, {p}");
        }
    }

    #[test]
    fn none_and_all_are_certain_where_they_are() {
        let mut stream = RandomStream::new(5, GeneratorPurpose::Degree, 1);
        assert_eq!(binomial(0, 0.5, &mut stream), 0);
        assert_eq!(binomial(7, 0.0, &mut stream), 0);
        assert_eq!(binomial(7, 1.0, &mut stream), 7);
        assert_eq!(power(0.5, 10), 1.0 / 1024.0);
    }
}
