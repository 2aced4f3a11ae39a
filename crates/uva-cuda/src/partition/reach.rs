//! The number of multiprocessors that a gather needs, and shares with MPS.

/// The figures of a link and a kernel that determine a multiprocessor's throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// Multiprocessors of the whole device.
    pub multiprocessors: u32,
    /// Resident warps per multiprocessor with this kernel: 48 or 64 for whole devices, fewer if registers or shared
    /// memory limit it.
    pub warps: u32,
    /// Reads over the link that one warp keeps in flight.
    pub reads_per_warp: u32,
}

/// Bytes of the largest read over the link.
pub const LARGEST_READ: f64 = 128.0;

/// Reads of 128 bytes in flight that fill a link: bandwidth × round trip ÷ 128.
///
/// `bytes_per_second` is the link's bandwidth in one direction, `round_trip_seconds` the time from a read's start to
/// its answer.
pub fn reads_in_flight(bytes_per_second: f64, round_trip_seconds: f64) -> f64 {
    bytes_per_second * round_trip_seconds / LARGEST_READ
}

impl Reach {
    /// The multiprocessors that keep `reads` in flight, as a fraction, not rounded.
    pub fn multiprocessors_exactly(&self, reads: f64) -> f64 {
        let each = f64::from(self.warps.max(1)) * f64::from(self.reads_per_warp.max(1));
        reads / each
    }

    /// The fewest whole multiprocessors that keep `reads` in flight: at least one, at most all.
    pub fn multiprocessors_for(&self, reads: f64) -> u32 {
        // A cast from f64 saturates, and turns NaN into 0.
        (self.multiprocessors_exactly(reads).ceil() as u32).clamp(1, self.multiprocessors.max(1))
    }
}

/// The smallest whole percentage of `all` multiprocessors under which MPS leaves at least `wanted`. MPS rounds down.
///
/// 1…100; 100 if `wanted` exceeds `all`.
pub fn mps_percentage(wanted: u32, all: u32) -> u32 {
    (100 * u64::from(wanted)).div_ceil(u64::from(all.max(1))).clamp(1, 100) as u32
}

/// The multiprocessors that MPS leaves of `all` under `percentage`, rounded down as it does, but never none.
pub fn mps_multiprocessors(percentage: u32, all: u32) -> u32 {
    ((u64::from(all) * u64::from(percentage.min(100)) / 100) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The card of the published figures: 82 multiprocessors of 48 warps, one read a warp.
    const RTX_3090: Reach = Reach { multiprocessors: 82, warps: 48, reads_per_warp: 1 };

    #[test]
    fn the_published_link_needs_302_to_325_reads_in_flight() {
        assert_eq!(reads_in_flight(25.8e9, 1.5e-6).floor(), 302.0);
        // The upper of the published two follows from a round trip of 1.61 µs.
        assert_eq!(reads_in_flight(25.8e9, 1.6125e-6).round(), 325.0);
    }

    #[test]
    fn the_published_bounds_are_16_of_82_multiprocessors_and_8_2_percent() {
        // PCIe 4 keeps at most 768 reads in flight.
        assert_eq!(RTX_3090.multiprocessors_for(768.0), 16);
        assert_eq!((1000.0_f64 * 16.0 / 82.0).round(), 195.0);
        // 325 reads: 6.77 multiprocessors.
        let share = RTX_3090.multiprocessors_exactly(325.0) / 82.0;
        assert!((0.082..0.083).contains(&share), "{share}");
        assert_eq!(RTX_3090.multiprocessors_for(325.0), 7);
    }

    #[test]
    fn more_loads_in_flight_per_warp_need_fewer_multiprocessors() {
        let wide = Reach { reads_per_warp: 4, ..RTX_3090 };
        assert_eq!(wide.multiprocessors_for(768.0), 4);
        assert_eq!(wide.multiprocessors_for(769.0), 5);
    }

    #[test]
    fn a_need_is_at_least_one_multiprocessor_and_at_most_all() {
        assert_eq!(RTX_3090.multiprocessors_for(0.0), 1);
        assert_eq!(RTX_3090.multiprocessors_for(f64::NAN), 1);
        assert_eq!(RTX_3090.multiprocessors_for(f64::INFINITY), 82);
        assert_eq!(Reach { warps: 0, reads_per_warp: 0, multiprocessors: 0 }.multiprocessors_for(5.0), 1);
    }

    #[test]
    fn a_percentage_gives_what_was_wanted_after_mps_has_rounded_down() {
        assert_eq!(mps_percentage(16, 82), 20);
        assert_eq!(mps_multiprocessors(20, 82), 16);
        for all in [1, 20, 82, 108, 132, 148] {
            for wanted in 1..=all {
                let percentage = mps_percentage(wanted, all);
                assert!(mps_multiprocessors(percentage, all) >= wanted, "{wanted} of {all}");
                let less = percentage - 1;
                assert!(less == 0 || all * less / 100 < wanted, "{wanted} of {all}: {less} % would do");
            }
        }
        assert_eq!((mps_percentage(9, 4), mps_percentage(0, 82)), (100, 1));
    }
}
