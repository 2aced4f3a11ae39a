//! `uvatrain bench gather`: random feature rows into a slot, next to a plain copy.

use serde::Serialize;
use uva_bench::{MeasureOptions, Measurement, measure};
use uva_graph::Dataset;
use uva_mem::PageSize;

use crate::exit;
use crate::flags::bench::{GatherBenchFlags, GatherPages};
use crate::ui::table::TextTable;
use crate::ui::{format, out};

#[derive(Serialize)]
struct Report<'d> {
    dataset: &'d str,
    #[serde(flatten)]
    measured: Measurement,
}

/// Measures and prints the result.
pub fn run(flags: &GatherBenchFlags) -> anyhow::Result<()> {
    let dataset = Dataset::open(&flags.data)?;
    let features = dataset.features();
    let bytes = usize::try_from(flags.bytes.bytes())
        .map_err(|_| exit::usage(format!("--bytes {}: too large for this machine", flags.bytes)))?;
    let options = MeasureOptions {
        threads: flags.threads as usize,
        bytes,
        repeats: flags.repeats as usize,
        seed: flags.seed,
        pages: flags.pages.map(|pages| match pages {
            GatherPages::Base => PageSize::Base,
            GatherPages::Huge => PageSize::Huge,
        }),
    };
    let measured = measure(features.bytes, features.row_bytes(), options)?;
    let report = Report { dataset: dataset.name(), measured };
    if flags.json { out::json(&report) } else { out::text(&text(&report)) }
}

fn text(report: &Report<'_>) -> String {
    let Measurement { gb_per_second, memcpy_gb_per_second, share_of_memcpy, .. } = report.measured;
    let Measurement { threads, row_bytes, rows, repeats, .. } = report.measured;
    let mut facts = TextTable::of_facts();
    facts.row(&["dataset", report.dataset]);
    facts.row(&[
        "random rows",
        &format!("{gb_per_second:.2} GB/s, {} of memcpy", format::percent(share_of_memcpy)),
    ]);
    facts.row(&["memcpy", &format!("{memcpy_gb_per_second:.2} GB/s, as many bytes in the same run")]);
    facts.row(&[
        "measured",
        &format!(
            "median of {repeats} × {} rows of {row_bytes} bytes, threads: {threads}, verified",
            format::count(rows as u64)
        ),
    ]);
    let share = |share: Option<f64>| {
        share.map_or_else(|| "unknown".to_owned(), |share| format::percent(share).to_string())
    };
    let Measurement { table_huge_share, output_huge_share, .. } = report.measured;
    facts.row(&[
        "on pages of 2 MiB",
        &format!("table {}, output {}", share(table_huge_share), share(output_huge_share)),
    ]);
    facts.render()
}
