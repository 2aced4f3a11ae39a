//! Dropout: the choice of the kept elements, and their factor.
//!
//! On the host the random numbers are drawn here: libtorch's generator makes one number after the other, which took two
//! fifths of a GraphSAGE epoch. They equal the numbers that libtorch 2.11 draws on the CPU for the same seed, so losses
//! match `torch.nn.functional.dropout` bit for bit. The generator is a Mersenne Twister (Matsumoto & Nishimura 1998).
//! Two of its outputs form the halves of 64 bits. The low 53 bits are a number in [0, 1), which is compared with the
//! share kept. Except for one comparison and one product per element, all arithmetic is on integers, so all vectors
//! give the same bits.

use crate::torch::borrowed::Number;
use crate::torch::device::TrainDevice;
use crate::{TrainError, torch::host};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tch::{Kind, Tensor};
use uva_ops::{Vectors, vectorized};

/// libtorch has one generator for the whole process. The lock is held from seeding it to the last draw of a forward
/// pass, so that trainers on several threads stay repeatable.
pub(crate) static GENERATOR: Mutex<()> = Mutex::new(());

/// The random numbers of one batch, drawn in the order of the elements in memory.
pub(crate) enum Draws {
    /// For tensors on the host.
    Host(Box<Twister>),
    /// For tensors on a device: libtorch's generator, seeded.
    Device { _generator: MutexGuard<'static, ()> },
}

impl Draws {
    /// Equal seeds draw equal numbers on equal devices.
    pub(crate) fn new(device: TrainDevice, seed: i64) -> Self {
        let seed = match device {
            TrainDevice::Cpu => {
                return Self::Host(Box::new(Twister::new(seed as u32, Vectors::widest())));
            }
            // For one seed libtorch's generator on the host draws the same numbers as the one here, and that of a
            // device does not.
            TrainDevice::StandIn => !seed,
            TrainDevice::Cuda(_) => seed,
        };
        let generator = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
        tch::manual_seed(seed);
        Self::Device { _generator: generator }
    }

    /// `x` with each element set to zero with the probability `dropout`, otherwise divided by 1 − `dropout`.
    pub(crate) fn dropout(&mut self, x: &Tensor, dropout: f64) -> Result<Tensor, TrainError> {
        match self {
            Self::Host(_) => match self.mask(x, dropout)? {
                Some(mask) => Ok(x.f_mul(&mask)?),
                None => Ok(x.shallow_clone()),
            },
            Self::Device { .. } => Ok(x.f_dropout(dropout, true)?),
        }
    }

    /// The factors of dropout for `like`: 0 with the probability `dropout`, otherwise 1 / (1 − `dropout`). `None` for a
    /// probability of 0.
    pub(crate) fn mask(&mut self, like: &Tensor, dropout: f64) -> Result<Option<Tensor>, TrainError> {
        if dropout == 0.0 {
            return Ok(None);
        }
        let mut mask = like.f_ones_like()?.f_contiguous()?;
        match self {
            Self::Host(twister) => twister.apply(&mut mask, dropout)?,
            Self::Device { .. } => mask = mask.f_dropout(dropout, true)?,
        }
        Ok(Some(mask))
    }

    /// max(`x`, 0) with dropout. `x` is an owned result, and changed in place on the host.
    pub(crate) fn behind_relu(&mut self, mut x: Tensor, dropout: f64) -> Result<Tensor, TrainError> {
        match self {
            Self::Host(twister) if dropout > 0.0 => {
                x = x.f_contiguous()?;
                twister.apply(&mut x, dropout)?;
                Ok(x)
            }
            _ => {
                let _ = x.f_relu_()?;
                if dropout > 0.0 { self.dropout(&x, dropout) } else { Ok(x) }
            }
        }
    }
}

/// A kind of element that can be dropped.
trait Dropped: Number + PartialOrd {
    const ZERO: Self;

    /// 1 / (1 − `dropout`), rounded as libtorch does.
    fn scale(dropout: f64) -> Self;

    /// max(`self`, 0) times `factor`. NaN stays NaN.
    fn positive_times(self, factor: Self) -> Self;
}

macro_rules! dropped {
    ($type:ty) => {
        impl Dropped for $type {
            const ZERO: Self = 0.0;

            fn scale(dropout: f64) -> Self {
                1.0 / (1.0 - dropout) as $type
            }

            #[inline(always)]
            fn positive_times(self, factor: Self) -> Self {
                let positive = if self < 0.0 { 0.0 } else { self };
                positive * factor
            }
        }
    };
}

dropped!(f32);
dropped!(f64);

/// Words of the twister's state, and the distance of the words that make a new one.
const WORDS: usize = 624;
const APART: usize = 397;
/// Numbers from one state.
const NUMBERS: usize = WORDS / 2;
/// Bits of a number.
const BITS: u32 = 53;

/// MT19937, whose outputs are used in pairs.
pub(crate) struct Twister {
    /// The instruction set for the draws.
    vectors: Vectors,
    state: [u32; WORDS],
    /// Numbers below 2⁵³ from the state; `used` of them have been drawn.
    numbers: [u64; NUMBERS],
    used: usize,
}

impl Twister {
    pub(crate) fn new(seed: u32, vectors: Vectors) -> Self {
        let mut state = [seed; WORDS];
        for word in 1..WORDS {
            let before = state[word - 1];
            state[word] = (before ^ before >> 30).wrapping_mul(1_812_433_253).wrapping_add(word as u32);
        }
        Self { vectors, state, numbers: [0; NUMBERS], used: NUMBERS }
    }

    /// Sets elements not above zero to zero, and drops a share of `dropout` of the others. The rest is divided by 1 −
    /// `dropout`.
    fn apply(&mut self, x: &mut Tensor, dropout: f64) -> Result<(), TrainError> {
        match x.f_kind()? {
            Kind::Double => host::change::<f64>(x, |values| self.drop(values, dropout)),
            _ => host::change::<f32>(x, |values| self.drop(values, dropout)),
        }
    }

    fn drop<T: Dropped>(&mut self, mut values: &mut [T], dropout: f64) {
        // A number n is below the share that is kept if n / 2⁵³ is, and the product is exact.
        let below = ((1.0 - dropout) * (1u64 << BITS) as f64).ceil() as u64;
        let scale = T::scale(dropout);
        while !values.is_empty() {
            if self.used == NUMBERS {
                renew(self.vectors, &mut self.state, &mut self.numbers);
                self.used = 0;
            }
            let numbers = &self.numbers[self.used..];
            let (now, later) = values.split_at_mut(numbers.len().min(values.len()));
            drop_some(self.vectors, now, numbers, below, scale);
            self.used += now.len();
            values = later;
        }
    }
}

vectorized! {
    fn drop_some<T: Dropped>(values: &mut [T], numbers: &[u64], below: u64, scale: T) {
        for (value, &number) in values.iter_mut().zip(numbers) {
            *value = value.positive_times(if number < below { scale } else { T::ZERO });
        }
    }
}

vectorized! {
    fn renew(state: &mut [u32; WORDS], numbers: &mut [u64; NUMBERS]) {
        // Computes the new state from the old one in separate memory, in runs. Each run reads only words written before
        // it, so its words can be computed in parallel lanes.
        let old = *state;
        let word = |word: usize, next: usize, far: u32| {
            let joined = old[word] & 0x8000_0000 | old[next] & 0x7fff_ffff;
            far ^ joined >> 1 ^ (joined & 1).wrapping_neg() & 0x9908_b0df
        };
        const RUN: usize = WORDS - APART;
        for i in 0..RUN {
            state[i] = word(i, i + 1, old[i + APART]);
        }
        let (first, rest) = state.split_at_mut(RUN);
        let (second, third) = rest.split_at_mut(RUN);
        for i in 0..RUN {
            second[i] = word(RUN + i, RUN + i + 1, first[i]);
        }
        let length = third.len();
        for i in 0..length - 1 {
            third[i] = word(2 * RUN + i, 2 * RUN + i + 1, second[i]);
        }
        third[length - 1] = {
            let joined = old[WORDS - 1] & 0x8000_0000 | first[0] & 0x7fff_ffff;
            second[length - 1] ^ joined >> 1 ^ (joined & 1).wrapping_neg() & 0x9908_b0df
        };
        let tempered = |mut word: u32| {
            word ^= word >> 11;
            word ^= word << 7 & 0x9d2c_5680;
            word ^= word << 15 & 0xefc6_0000;
            word ^ word >> 18
        };
        for (number, pair) in numbers.iter_mut().zip(state.chunks_exact(2)) {
            let (high, low) = (u64::from(tempered(pair[0])), u64::from(tempered(pair[1])));
            *number = (high << 32 | low) & ((1 << BITS) - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    /// Numbers as words: the high half of a number has lost its top eleven bits.
    const HIGH: u64 = (1 << (BITS - 32)) - 1;

    #[test]
    fn the_ten_thousandth_word_is_that_of_the_cpp_standard() {
        for vectors in Vectors::available() {
            let mut twister = Twister::new(5489, vectors);
            for _ in 0..=9999 / WORDS {
                renew(vectors, &mut twister.state, &mut twister.numbers);
            }
            let number = twister.numbers[9999 % WORDS / 2];
            assert_eq!(number & 0xffff_ffff, 4_123_659_995, "{vectors}");
            assert_ne!(number >> 32 & HIGH, 0, "{vectors}");
        }
    }

    #[test]
    fn the_same_elements_are_dropped_as_by_libtorch() {
        let _generator = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in [Kind::Float, Kind::Double] {
            for dropout in [0.5, 0.1, 0.999, 1.0 / 3.0] {
                for seed in [0, 7, i64::MAX, -3] {
                    // The second begins within a state, the third is empty.
                    let mut draws = Draws::new(TrainDevice::Cpu, seed);
                    tch::manual_seed(seed);
                    for shape in [[17, 31], [40, 25], [0, 3], [1, 700]] {
                        let x = Tensor::arange(shape[0] * shape[1], (kind, Device::Cpu)) - 200.5;
                        let x = x.view(shape);
                        let expected = x.relu().dropout(dropout, true);
                        assert!(
                            draws.behind_relu(x.copy(), dropout).unwrap().equal(&expected),
                            "{seed} {dropout}"
                        );
                        let expected = x.dropout(dropout, true);
                        assert!(draws.dropout(&x, dropout).unwrap().equal(&expected), "{seed} {dropout}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_stand_in_for_a_device_drops_other_elements_and_as_many() {
        let x = Tensor::ones([100, 100], (Kind::Float, Device::Cpu));
        let dropped = |device| Draws::new(device, 7).dropout(&x, 0.5).unwrap();
        let [host, device, again] =
            [TrainDevice::Cpu, TrainDevice::StandIn, TrainDevice::StandIn].map(dropped);
        assert!(device.equal(&again), "equal seeds draw equal numbers");
        let differ = host.ne_tensor(&device).sum(Kind::Int64).int64_value(&[]);
        assert!((4_000..6_000).contains(&differ), "{differ} of 10,000 elements differ");
        let kept = device.sum(Kind::Int64).int64_value(&[]) / 2;
        assert!((4_500..5_500).contains(&kept), "{kept} of 10,000 elements are kept");
    }

    #[test]
    fn a_state_is_renewed_as_it_was_published() {
        let seeded = || Twister::new(3, Vectors::PORTABLE).state;
        // One word after the other, in place, as in the paper.
        let mut words = seeded();
        for i in 0..WORDS {
            let joined = words[i] & 0x8000_0000 | words[(i + 1) % WORDS] & 0x7fff_ffff;
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            words[i] = words[(i + APART) % WORDS] ^ joined >> 1 ^ odd;
        }
        for vectors in Vectors::available() {
            let (mut state, mut numbers) = (seeded(), [0; NUMBERS]);
            renew(vectors, &mut state, &mut numbers);
            assert_eq!(state, words, "{vectors}");
        }
    }

    /// Elements of every sort, dropped in calls that begin and end within a state, by one twister.
    fn dropped<T: Dropped + From<f32>>(vectors: Vectors, seed: u32, dropout: f64) -> Vec<T> {
        let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE / 4.0, f32::MAX];
        let mut twister = Twister::new(seed, vectors);
        let mut all = Vec::new();
        for length in [1, 17, NUMBERS - 18, NUMBERS, 3 * NUMBERS + 5, 2, 0, 1000] {
            let element = |place: usize| match special.get(place % 64) {
                Some(&special) => T::from(special),
                None => T::from(place as f32 * 0.37 - 40.0),
            };
            let mut values: Vec<T> = (0..length).map(element).collect();
            twister.drop(&mut values, dropout);
            all.extend(values);
        }
        all
    }

    #[test]
    fn all_vectors_drop_the_same_elements_and_scale_others_to_the_same_bits() {
        fn check<T: Dropped + From<f32>>(bits: fn(&T) -> u64) {
            for seed in [0, 5489, u32::MAX] {
                for dropout in [0.1, 0.5, 1.0 / 3.0, 0.999] {
                    let of = |vectors| -> Vec<u64> {
                        dropped::<T>(vectors, seed, dropout).iter().map(bits).collect()
                    };
                    let expected = of(Vectors::PORTABLE);
                    for vectors in Vectors::available() {
                        assert!(of(vectors) == expected, "{vectors} {seed} {dropout}");
                    }
                }
            }
        }
        // Infinity times zero is NaN, whose bits are unspecified.
        check::<f32>(|value| if value.is_nan() { u64::MAX } else { value.to_bits().into() });
        check::<f64>(|value| if value.is_nan() { u64::MAX } else { value.to_bits() });
    }

    #[test]
    fn all_vectors_make_the_same_numbers_of_a_state() {
        for seed in [0, 1, 5489, u32::MAX] {
            let mut portable = Twister::new(seed, Vectors::PORTABLE);
            let mut others: Vec<Twister> =
                Vectors::available().map(|vectors| Twister::new(seed, vectors)).collect();
            for state in 0..3 {
                renew(portable.vectors, &mut portable.state, &mut portable.numbers);
                for Twister { vectors, state: words, numbers, .. } in &mut others {
                    renew(*vectors, words, numbers);
                    assert!(*words == portable.state, "{vectors}: state {state} of seed {seed}");
                    assert!(
                        *numbers == portable.numbers,
                        "{vectors}: numbers of state {state} of seed {seed}"
                    );
                }
            }
        }
    }
}
