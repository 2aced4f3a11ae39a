//! The measurement of a gather on the CPU.

use uva_bench::{MeasureOptions, measure};
use uva_mem::PageSize;

#[test]
fn a_measurement_is_verified_and_counts_what_it_moved() {
    let table: Vec<u8> = (0..400 * 3000u32).map(|i| (i % 251) as u8).collect();
    for threads in [1, 2] {
        for pages in [None, Some(PageSize::Base), Some(PageSize::Huge)] {
            let options = MeasureOptions { threads, bytes: 1 << 20, repeats: 3, seed: 5, pages };
            let measurement = measure(&table, 400, options).unwrap();
            assert!(measurement.verified && measurement.gb_per_second > 0.0);
            assert_eq!((measurement.rows, measurement.threads), ((1 << 20) / 400, threads));
            if pages == Some(PageSize::Base) {
                let shares = (measurement.table_huge_share, measurement.output_huge_share);
                assert_eq!(shares, (Some(0.0), Some(0.0)), "huge pages were used");
            }
        }
    }
    // A table smaller than the moved bytes wraps around.
    let measurement =
        measure(&table[..400 * 3], 400, MeasureOptions { bytes: 40_000, ..Default::default() }).unwrap();
    assert_eq!(measurement.rows, 100);
    assert!(measure(&[], 400, MeasureOptions::default()).is_err());
}
