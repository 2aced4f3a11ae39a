//! Random numbers keyed by their purpose, so that they do not depend on the order of work or the number of threads.

use uva_graph::mix;

/// The purpose of a stream of random numbers. The numbers are part of the meaning of a seed, so they never change.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub(crate) enum GeneratorPurpose {
    Permutation = 1,
    Degree = 2,
    Neighbours = 3,
    Features = 4,
    ClassCentre = 5,
    LabelNoise = 6,
    Split = 7,
    Fame = 8,
    Host = 9,
    HostClass = 10,
    Navigation = 11,
    Quadrants = 12,
    RestSplit = 13,
}

/// splitmix64 started at a point that (seed, purpose, key) choose.
#[derive(Debug, Clone)]
pub(crate) struct RandomStream(u64);

impl RandomStream {
    pub(crate) fn new(seed: u64, purpose: GeneratorPurpose, key: u64) -> RandomStream {
        // Odd constants separate the three inputs. Each passes the finaliser, so that neighbouring keys have nothing in
        // common.
        let start = mix(seed.wrapping_add((purpose as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        RandomStream(mix(start ^ mix(key.wrapping_mul(0xd1b5_4a32_d192_ed03))))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform in [0, 1), a multiple of 2⁻⁵³: exact in a double, and so the same on every machine.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in 0..`bound`, up to a bias of `bound`/2⁶⁴.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Nearly normal, mean 0, variance 1: the sum of four uniform 16-bit numbers (Irwin–Hall), since a library's
    /// logarithm may differ in its last bit between machines.
    #[inline]
    pub(crate) fn normal(&mut self) -> f32 {
        let word = self.next();
        let sum = (word & 0xffff) + ((word >> 16) & 0xffff) + ((word >> 32) & 0xffff) + (word >> 48);
        // Mean 4 · 65535/2; variance 4 · (2³² − 1)/12, whose root is 37837.2.
        (sum as f32 - 131_070.0) * (1.0 / 37_837.22)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let mut stream = RandomStream::new(7, GeneratorPurpose::Features, 3);
        let draws: Vec<f64> = (0..200_000).map(|_| f64::from(stream.normal())).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.01, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.01, "variance {variance}");
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_key() {
        let first = |seed, purpose, key| RandomStream::new(seed, purpose, key).next();
        let base = first(1, GeneratorPurpose::Degree, 1);
        assert_ne!(base, first(2, GeneratorPurpose::Degree, 1));
        assert_ne!(base, first(1, GeneratorPurpose::Neighbours, 1));
        assert_ne!(base, first(1, GeneratorPurpose::Degree, 2));
        assert_eq!(base, first(1, GeneratorPurpose::Degree, 1));
    }
}
