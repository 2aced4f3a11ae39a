//! Bodies compiled for every instruction set, as used by other crates: that they are compiled, and that they compute
//! the same.
//!
//! A separate program, because it replaces the C library's `fmaf` for its whole process.

use std::cell::Cell;
use std::hint::black_box;
use std::ops::{Add, Mul};

use uva_ops::{Set, Vectors, vectorized};

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// Replaces the C library's function in this program, which the compiler uses for `mul_add` if it may not assume FMA.
/// Correct for small whole numbers.
// SAFETY: it has the signature of C's function, and only the test below calls it in this program.
#[unsafe(no_mangle)]
extern "C" fn fmaf(a: f32, b: f32, c: f32) -> f32 {
    CALLS.set(CALLS.get() + 1);
    a * b + c
}

/// A pattern without structure, the same in each run.
fn numbers(count: usize) -> Vec<u32> {
    (0..count as u32).map(|place| place.wrapping_mul(0x9e37_79b9) ^ place << 7).collect()
}

vectorized! {
    fn lanes<const LANES: usize>() -> usize {
        LANES
    }
}

vectorized! {
    fn mixed<const LANES: usize>(values: &[u32], out: &mut [u32]) -> u32 {
        let (chunks, rest) = values.as_chunks::<LANES>();
        let (of_chunks, of_rest) = out.as_chunks_mut::<LANES>();
        let mut sums = [0_u32; LANES];
        for (chunk, out) in chunks.iter().zip(of_chunks) {
            for lane in 0..LANES {
                out[lane] = (chunk[lane] ^ chunk[lane] >> 15).wrapping_mul(0x2c1b_3c6d);
                sums[lane] = sums[lane].wrapping_add(out[lane]);
            }
        }
        for (&value, out) in rest.iter().zip(of_rest) {
            *out = (value ^ value >> 15).wrapping_mul(0x2c1b_3c6d);
            sums[0] = sums[0].wrapping_add(*out);
        }
        sums.into_iter().fold(0, u32::wrapping_add)
    }
}

vectorized! {
    /// With a type.
    fn product_and_sum<T: Number>(a: &[T], b: &[T], out: &mut [T]) {
        for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *out = a * b + *out;
        }
    }
}

vectorized! {
    fn multiply_add(a: &[f32], b: &[f32], out: &mut [f32]) {
        for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *out = a.mul_add(b, *out);
        }
    }
}

trait Number: Copy + Add<Output = Self> + Mul<Output = Self> {}

impl Number for f32 {}
impl Number for f64 {}

#[test]
fn sets_are_available_from_the_portable_one_up_to_the_widest() {
    let available: Vec<Vectors> = Vectors::available().collect();
    assert_eq!(available.first(), Some(&Vectors::PORTABLE));
    assert_eq!(available.last(), Some(&Vectors::widest()));
    assert!(available.is_sorted_by(|one, next| one.set() < next.set()), "{available:?}");
    for vectors in available {
        assert_eq!(vectors.to_string(), vectors.name());
        assert_eq!(format!("{:?}", vectors.set()).to_lowercase(), vectors.name());
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn sets_are_those_that_the_system_says_the_processor_has() {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let has = |flags: &str| flags.split(' ').all(|flag| processor.split_whitespace().any(|has| has == flag));
    let avx2 = has("avx2 fma f16c");
    let avx512 = avx2 && has("avx512f avx512bw avx512dq avx512vl avx512vbmi");
    let expected = [Some("portable"), avx2.then_some("avx2"), avx512.then_some("avx512")];
    assert!(Vectors::available().map(Vectors::name).eq(expected.into_iter().flatten()));
}

#[test]
fn each_set_runs_a_body_of_its_own() {
    for vectors in Vectors::available() {
        let expected = match vectors.name() {
            "avx512" => 16,
            "avx2" => 8,
            _ => 4,
        };
        assert_eq!(lanes(vectors), expected, "{vectors}");
    }
}

#[test]
fn a_body_is_compiled_for_the_instructions_of_its_set() {
    for vectors in Vectors::available() {
        let (a, b, mut out) = ([2.0; 37], [3.0; 37], [1.0; 37]);
        CALLS.set(0);
        multiply_add(vectors, black_box(&a), black_box(&b), black_box(&mut out));
        assert_eq!(out, [7.0; 37], "{vectors}");
        // Without an instruction, a function is called.
        let expected = if vectors.set() == Set::Portable && !cfg!(target_feature = "fma") { 37 } else { 0 };
        assert_eq!(CALLS.get(), expected, "{vectors}");
    }
}

#[test]
fn every_set_gives_what_the_portable_one_gives() {
    for length in [0, 1, 3, 4, 5, 8, 15, 16, 17, 100, 1000] {
        let values = numbers(length);
        let mut expected = vec![0; length];
        let sum = mixed(Vectors::PORTABLE, &values, &mut expected);
        for vectors in Vectors::available() {
            let mut out = vec![0; length];
            assert_eq!(mixed(vectors, &values, &mut out), sum, "{vectors}, {length}");
            assert_eq!(out, expected, "{vectors}, {length}");
        }
    }
}

#[test]
fn a_product_is_rounded_before_it_is_added_with_every_set() {
    // (1 + e)² − 1 = 2e + e², whose last term is lost if the product is rounded.
    fn check<T: Number + PartialEq + std::fmt::Debug>(factor: T, minus_one: T, rounded: T) {
        for vectors in Vectors::available() {
            let (factors, mut out) = (vec![factor; 37], vec![minus_one; 37]);
            product_and_sum(vectors, black_box(&factors), black_box(&factors), black_box(&mut out));
            assert_eq!(out, vec![rounded; 37], "{vectors}");
        }
    }
    let (e, narrow) = (2.0_f64.powi(-30), 2.0_f32.powi(-13));
    check(1.0 + e, -1.0, 2.0 * e);
    check(1.0 + narrow, -1.0, 2.0 * narrow);
    // Not where it is not.
    assert_eq!((1.0 + e).mul_add(1.0 + e, -1.0), 2.0 * e + e * e);
    assert_ne!(2.0 * e + e * e, 2.0 * e);
}
