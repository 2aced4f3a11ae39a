//! Exponentially distributed keys from random words, by integer arithmetic and one division: the same bits on every
//! machine.

/// Coefficients of q in log₂(1 + t) ≈ t + t·(1 − t)·q(t) for 0 ≤ t < 1, in units of 2⁻³², their signs alternating from
/// plus.
///
/// q interpolates (log₂(1 + t) − t) / (t·(1 − t)) at the eleven Chebyshev points of [0, 1]. The coefficients are part
/// of the contract (docs/spec/reproducible-batches.md): any other approximation would sometimes pick other neighbours.
const LOG2: [u32; 11] = [
    1_901_360_720,
    1_196_802_686,
    868_614_893,
    680_046_808,
    555_475_204,
    456_913_028,
    355_293_914,
    236_551_560,
    118_923_742,
    38_334_212,
    5_783_109,
];

/// −log₂((u + ½) / 2³²) in units of 2⁻³², with an error below two units: 1 to 33 · 2³².
#[inline]
pub(super) fn exponential(word: u32) -> u64 {
    // (u + ½) / 2³² is x / 2³³, and x = (1 + t) · 2^e with t in units of 2⁻³².
    let x = 2 * u64::from(word) + 1;
    let e = x.ilog2();
    let t = (x << (32 - e)) as u32;
    let (wide, mut q) = (u64::from(t), 0_u32);
    for coefficient in LOG2.into_iter().rev() {
        // Coefficients fall, so the subtrahend is never larger.
        q = coefficient - ((u64::from(q) * wide) >> 32) as u32;
    }
    // t·(1 − t) in units of 2⁻³⁴: it is a quarter at most.
    let bow = (wide * u64::from(!t)) >> 30;
    let log = wide + ((bow * u64::from(q)) >> 34);
    (u64::from(33 - e) << 32) - log
}

/// The key of an entry of this weight, which is positive and finite: E / w, as bits with the order of the numbers.
#[inline]
pub(super) fn key(word: u32, weight: f64) -> u64 {
    // Both are exact, and the quotient is the double nearest to the true one, as IEEE 754 requires. It is positive, and
    // positive doubles have the order of their bits.
    (exponential(word) as f64 / weight).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a value, in its own units. (log₂ of doubles is good to 2⁻⁴⁷ here.)
    fn error(word: u32) -> f64 {
        let exact = -((f64::from(word) + 0.5) / 2_f64.powi(32)).log2() * 2_f64.powi(32);
        (exponential(word) as f64 - exact).abs()
    }

    #[test]
    fn exponentials_are_off_by_less_than_two_units() {
        let around = |place: u32| (0..2000).map(move |step: u32| place.wrapping_add(step).wrapping_sub(1000));
        let powers = (0..32).flat_map(|power| around(1 << power));
        let spread = (0..200_000_u32).map(|step| step.wrapping_mul(0x9E37_79B9));
        let worst = powers.chain(around(0)).chain(spread).map(error).fold(0.0, f64::max);
        assert!((0.5..2.0).contains(&worst), "{worst}");
    }

    #[test]
    #[ignore = "a minute in a release build: cargo test --release -p uva-sample -- --ignored every_word"]
    fn every_word_has_an_exponential_that_is_off_by_less_than_two_units() {
        let worst = (0..=u32::MAX).map(error).fold(0.0, f64::max);
        assert!((0.5..2.0).contains(&worst), "{worst}");
    }

    #[test]
    fn exponentials_are_those_of_the_second_implementation() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-vectors.json");
        let text = std::fs::read_to_string(path).unwrap();
        let vectors: serde_json::Value = serde_json::from_str(&text).unwrap();
        let cases = vectors["exponentials"].as_array().unwrap();
        assert!(cases.len() > 10);
        for case in cases {
            let word = u32::try_from(case["word"].as_u64().unwrap()).unwrap();
            assert_eq!(Some(exponential(word)), case["exponential"].as_u64(), "{word}");
        }
    }

    #[test]
    fn the_extreme_words_have_the_extreme_exponentials_in_reverse() {
        assert_eq!(exponential(0), 33 << 32);
        assert_eq!(exponential(u32::MAX), 1);
        assert_eq!(exponential(1 << 31), (1 << 32) - 1);
    }

    #[test]
    fn keys_order_as_the_quotients() {
        assert!(key(7, 2.0) < key(7, 1.0) && key(7, 1.0) < key(7, 1e-30));
        let (heaviest, lightest) = (f32::MAX.into(), f32::from_bits(1).into());
        assert!(key(u32::MAX, heaviest) < key(0, lightest), "and none is infinite");
        assert!(f64::from_bits(key(0, lightest)).is_finite());
    }
}
