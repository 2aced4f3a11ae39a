//! Choices from figures. Options with explicit values always win.

use uva_cuda::memory::PinPages;
use uva_cuda::partition::mps_percentage;

use super::figures::{Case, Figure, Figures};
use crate::backend::{BackendOptions, GatherChoice, GpuShare, TransferChoice};

/// Minimum speedup over zero-copy of a way that uses more CPU time.
const WORTH_THE_CPU: f64 = 1.05;

/// Minimum speedup by a copy of the table, which uses its memory a second time.
const WORTH_A_COPY: f64 = 1.1;

/// Minimum rate, as a part of the best, at which multiprocessors suffice.
const SUFFICES: f64 = 0.97;

/// The rows of a run, which bound the ways that it can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunRows {
    /// Of one table.
    OneTable,
    /// Of several tables, which the two ways cannot share.
    SeveralTables,
    /// Cached on the GPU, where only zero-copy reads them.
    Cached,
}

impl RunRows {
    /// The ways to choose from, the one first that uses the least CPU time.
    fn ways(self) -> &'static [GatherChoice] {
        match self {
            Self::OneTable => &[GatherChoice::ZeroCopy, GatherChoice::Dma, GatherChoice::Split],
            Self::SeveralTables => &[GatherChoice::ZeroCopy, GatherChoice::Dma],
            Self::Cached => &[GatherChoice::ZeroCopy],
        }
    }
}

/// The fastest choices by these figures, for choices that the options leave open.
pub fn chosen(options: &BackendOptions, figures: &Figures, rows: RunRows) -> TransferChoice {
    let mut chosen = TransferChoice::unmeasured(options);
    if options.gather == GatherChoice::Auto {
        chosen.gather = gather(figures, rows.ways());
    }
    let by_kernels = matches!(chosen.gather, GatherChoice::ZeroCopy | GatherChoice::Split);
    if by_kernels && options.mps_percentage == GpuShare::Auto {
        let most = 99_u32.saturating_sub(options.mps_sampler_percentage.unwrap_or(0));
        let share = share(figures).filter(|share| (1..most).contains(share));
        chosen.producer_percentage = share.unwrap_or(chosen.producer_percentage);
    }
    if by_kernels && options.table_pages.named().is_none() {
        chosen.table_pages = pages(figures);
    }
    if chosen.gather == GatherChoice::Split {
        let settled = figures.of(&Case::by(GatherChoice::Split)).and_then(|figure| figure.split_share);
        chosen.split_share = settled.or_else(|| fair_share(&figures.cases));
    }
    chosen
}

/// The fastest way; in doubt, the one that uses less CPU time.
fn gather(figures: &Figures, ways: &[GatherChoice]) -> GatherChoice {
    let rate = |gather| figures.rate(&Case::by(gather)).unwrap_or(0.0);
    let (mut best, mut wanted) = (ways[0], rate(ways[0]) * WORTH_THE_CPU);
    for &other in &ways[1..] {
        if rate(other) > wanted {
            (best, wanted) = (other, rate(other) * WORTH_THE_CPU);
        }
    }
    best
}

/// The smallest share in per cent without loss, otherwise the best of those measured.
fn share(figures: &Figures) -> Option<u32> {
    let few = figures.cases.iter().filter_map(|figure| {
        let multiprocessors = figure.case.multiprocessors?;
        Some((multiprocessors, figure.gb_per_second?))
    });
    let few: Vec<(u32, f64)> = few.collect();
    let all = figures.rate(&Case::by(GatherChoice::ZeroCopy)).unwrap_or(0.0);
    let fastest = few.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let wanted = fastest.1.max(all) * SUFFICES;
    let least = few.iter().filter(|(_, rate)| *rate >= wanted).map(|(few, _)| *few).min();
    Some(mps_percentage(least.unwrap_or(fastest.0), figures.multiprocessors))
}

/// The pages in place, unless a copy is sufficiently faster, or pages in place are not supported.
fn pages(figures: &Figures) -> PinPages {
    let rate = |pages| figures.rate(&Case::on(pages));
    let wanted = rate(PinPages::InPlace).map_or(0.0, |rate| rate * WORTH_A_COPY);
    let copies = [PinPages::Thp, PinPages::Hugetlb, PinPages::HostAlloc];
    let faster = copies.into_iter().filter_map(|pages| Some((pages, rate(pages)?)));
    let best = faster.filter(|(_, rate)| *rate > wanted).max_by(|one, other| one.1.total_cmp(&other.1));
    best.map_or(PinPages::InPlace, |(pages, _)| pages)
}

/// The share of the rows with which kernels and copies end at the same time, if each keeps its separate rate.
pub fn fair_share(cases: &[Figure]) -> Option<f64> {
    let rate = |gather| {
        let case = Case::by(gather);
        cases.iter().find(|figure| figure.case == case)?.gb_per_second
    };
    let (kernels, copies) = (rate(GatherChoice::ZeroCopy)?, rate(GatherChoice::Dma)?);
    Some(kernels / (kernels + copies))
}

/// The choices with the figures that they follow from, for people. `source` is the origin of the figures.
pub fn described(
    chosen: &TransferChoice,
    options: &BackendOptions,
    figures: &Figures,
    rows: RunRows,
    source: &str,
) -> String {
    let rate = |case: &Case| match figures.rate(case) {
        Some(rate) => format!("{rate:.1}"),
        None => "not measured".to_owned(),
    };
    let named = |is_named: bool| if is_named { ", as requested" } else { "" };
    // Without a cache, which the figures of the other ways show the price of.
    let ways = if rows == RunRows::Cached { RunRows::OneTable.ways() } else { rows.ways() };
    let own = Case::by(chosen.gather);
    let others: Vec<String> = ways
        .iter()
        .filter(|way| **way != chosen.gather)
        .map(|&way| format!("{way} {}", rate(&Case::by(way))))
        .collect();
    let mut text = format!(
        "gather {}{}{} (measured {} GB/s; {})",
        chosen.gather,
        named(options.gather != GatherChoice::Auto),
        match rows {
            RunRows::Cached if options.gather == GatherChoice::Auto => ", since rows are cached",
            RunRows::SeveralTables => ", by the rows of the largest table",
            RunRows::OneTable | RunRows::Cached => "",
        },
        rate(&own),
        others.join(", "),
    );
    if chosen.gather != GatherChoice::Dma {
        let few: Vec<String> = figures
            .cases
            .iter()
            .filter_map(|figure| {
                figure.case.multiprocessors.map(|few| format!("{few}: {}", rate(&Case::within(few))))
            })
            .collect();
        let copies = [PinPages::Thp, PinPages::Hugetlb, PinPages::HostAlloc];
        let copies: Vec<String> = copies
            .into_iter()
            .filter_map(|pages| Some(format!("{pages} {:.1}", figures.rate(&Case::on(pages))?)))
            .collect();
        text += &format!(
            "; producer's share {} %{} (GB/s by multiprocessors {}); table pages {}{} ({} GB/s in place; {})",
            chosen.producer_percentage,
            named(options.mps_percentage != GpuShare::Auto),
            few.join(", "),
            chosen.table_pages,
            named(options.table_pages.named().is_some()),
            rate(&Case::on(PinPages::InPlace)),
            if copies.is_empty() { "no copy measured".to_owned() } else { copies.join(", ") },
        );
    }
    format!("{text}; {source}")
}

#[cfg(test)]
mod tests {
    use uva_cuda::kernels::gather::Kernel;

    use super::*;
    use crate::backend::TablePagesChoice;
    use crate::tune::measurement::figures::MeasurementShape;

    fn figures(rates: &[(Case, f64)]) -> Figures {
        let figure = |&(case, rate): &(Case, f64)| Figure {
            case,
            gb_per_second: Some(rate),
            gathers: 9,
            split_share: None,
            left_out: None,
        };
        Figures {
            shape: MeasurementShape::new(1 << 28, 512, Kernel::Wide, 4),
            multiprocessors: 132,
            sample_bytes: 1 << 28,
            seconds: 1.5,
            cases: rates.iter().map(figure).collect(),
        }
    }

    const ZERO_COPY: Case = Case::by(GatherChoice::ZeroCopy);
    const DMA: Case = Case::by(GatherChoice::Dma);
    const SPLIT: Case = Case::by(GatherChoice::Split);

    fn auto(rates: &[(Case, f64)]) -> TransferChoice {
        chosen(&BackendOptions::default(), &figures(rates), RunRows::OneTable)
    }

    #[test]
    fn the_fastest_way_wins_or_zero_copy_where_others_gain_nothing() {
        for (rates, expected) in [
            ([51.2, 48.0, 52.0], GatherChoice::ZeroCopy),
            ([51.2, 48.0, 54.3], GatherChoice::Split),
            // nvbandwidth#24: multiprocessors read at 35 GB/s where the copy engine moves 55.
            ([35.0, 55.0, 56.0], GatherChoice::Dma),
            ([35.0, 20.0, 50.0], GatherChoice::Split),
            ([18.0, 20.0, 20.5], GatherChoice::Dma),
        ] {
            let chosen = auto(&[(ZERO_COPY, rates[0]), (DMA, rates[1]), (SPLIT, rates[2])]);
            assert_eq!(chosen.gather, expected, "{rates:?}");
        }
        // Pages in place are not supported, so the copies remain.
        assert_eq!(auto(&[(DMA, 20.0)]).gather, GatherChoice::Dma);
        assert_eq!(auto(&[]), TransferChoice::unmeasured(&BackendOptions::default()));
    }

    #[test]
    fn the_share_is_the_least_that_loses_less_than_three_per_cent() {
        let share = |rates: [f64; 5]| {
            let few = [4, 8, 16, 32].map(Case::within);
            let cases: Vec<_> = few.into_iter().chain([ZERO_COPY]).zip(rates).collect();
            auto(&cases).producer_percentage
        };
        // 8 of 132, 16 and 4.
        assert_eq!(share([30.0, 50.0, 51.0, 51.2, 51.2]), 7);
        assert_eq!(share([30.0, 49.0, 51.0, 51.2, 51.2]), 13);
        assert_eq!(share([50.9, 51.0, 51.0, 51.2, 51.2]), 4);
        // A few multiprocessors are faster than all: that counts as the best.
        assert_eq!(share([30.0, 52.0, 50.0, 49.0, 40.0]), 7);
        // No number suffices: the largest number that was tried.
        assert_eq!(share([5.0, 10.0, 20.0, 35.0, 50.0]), 25);
        // None of these cases was measured.
        assert_eq!(auto(&[(ZERO_COPY, 50.0)]).producer_percentage, 10);
    }

    #[test]
    fn a_share_that_does_not_fit_next_to_the_samplers_is_the_default() {
        let options = BackendOptions { mps_sampler_percentage: Some(80), ..BackendOptions::default() };
        let slow = figures(&[(Case::within(32), 35.0), (ZERO_COPY, 50.0)]);
        assert_eq!(chosen(&options, &slow, RunRows::OneTable).producer_percentage, 10);
    }

    #[test]
    fn a_copy_is_taken_where_it_pays_for_its_memory() {
        let pages = |in_place: f64, thp, hostalloc| {
            let cases = [
                (ZERO_COPY, in_place),
                (Case::on(PinPages::Thp), thp),
                (Case::on(PinPages::HostAlloc), hostalloc),
            ];
            auto(&cases).table_pages
        };
        assert_eq!(pages(50.0, 54.0, 54.9), PinPages::InPlace);
        assert_eq!(pages(18.0, 24.0, 25.0), PinPages::HostAlloc);
        assert_eq!(pages(18.0, 25.0, 24.0), PinPages::Thp);
        assert_eq!(auto(&[(Case::on(PinPages::Thp), 25.0)]).table_pages, PinPages::Thp);
    }

    #[test]
    fn rows_of_several_tables_take_one_of_the_two_ways() {
        let options = BackendOptions::default();
        for (dma, way) in [(60.0, GatherChoice::Dma), (30.0, GatherChoice::ZeroCopy)] {
            let figures = figures(&[(ZERO_COPY, 50.0), (DMA, dma), (SPLIT, 90.0)]);
            let chosen = chosen(&options, &figures, RunRows::SeveralTables);
            assert_eq!((chosen.gather, chosen.split_share), (way, None));
            let text = described(&chosen, &options, &figures, RunRows::SeveralTables, "stored in FILE");
            assert!(text.contains("by the rows of the largest table") && !text.contains("split"), "{text}");
        }
    }

    #[test]
    fn a_split_begins_where_the_measured_one_ended_or_at_the_rates_ratio() {
        let mut figures = figures(&[(ZERO_COPY, 30.0), (DMA, 10.0), (SPLIT, 40.0)]);
        let options = BackendOptions::default();
        assert_eq!(chosen(&options, &figures, RunRows::OneTable).split_share, Some(0.75));
        figures.cases[2].split_share = Some(0.7);
        assert_eq!(chosen(&options, &figures, RunRows::OneTable).split_share, Some(0.7));
        let named = BackendOptions { gather: GatherChoice::Split, ..options };
        figures.cases[0].gb_per_second = Some(60.0);
        assert_eq!(chosen(&named, &figures, RunRows::OneTable).split_share, Some(0.7));
    }

    #[test]
    fn named_options_win_and_caches_of_rows_need_zero_copy() {
        let cases = [
            (ZERO_COPY, 35.0),
            (DMA, 55.0),
            (SPLIT, 56.0),
            (Case::within(8), 35.0),
            (Case::on(PinPages::Thp), 50.0),
        ];
        let figures = figures(&cases);
        let named = BackendOptions {
            gather: GatherChoice::ZeroCopy,
            mps_percentage: GpuShare::Percent(25),
            table_pages: TablePagesChoice::InPlace,
            ..BackendOptions::default()
        };
        assert_eq!(chosen(&named, &figures, RunRows::OneTable), TransferChoice::unmeasured(&named));
        let cached = chosen(&BackendOptions::default(), &figures, RunRows::Cached);
        let expected = (GatherChoice::ZeroCopy, 7, PinPages::Thp);
        assert_eq!((cached.gather, cached.producer_percentage, cached.table_pages), expected);
        let text = described(
            &TransferChoice::unmeasured(&named),
            &named,
            &figures,
            RunRows::OneTable,
            "stored in FILE",
        );
        for part in [
            "gather zero-copy, as requested (measured 35.0 GB/s; dma 55.0, split 56.0)",
            "25 %, as requested",
        ] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
        let text =
            described(&cached, &BackendOptions::default(), &figures, RunRows::Cached, "stored in FILE");
        for part in ["since rows are cached", "share 7 %", "8: 35.0", "table pages thp", "stored in FILE"] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    }
}
