//! The figures as tables on a terminal.

use std::collections::BTreeMap;

use uva_bench::pcie::{Cell, CellFigure, GatherPartition, PcieReport};
use uva_rows::cuda::Kernel;

use crate::ui::format;
use crate::ui::table::TextTable;
use uva_runtime::spec::ByteSize;

/// The whole report, the most important tables first.
pub fn of(report: &PcieReport) -> String {
    let mut parts = vec![facts(report)];
    if report.base.axis != "full" && report.cells.iter().all(|figure| figure.cell.axis != "full") {
        parts.push(by_row_bytes(report));
        parts.push(by_multiprocessors(report));
        let axes = ["few-multiprocessors", "ids", "table-size", "pages"];
        parts.push(flat(report, &|cell| axes.contains(&cell.axis)));
    } else {
        parts.push(flat(report, &|_| true));
    }
    parts.push(ways(report));
    parts.push(goals(report));
    parts.push(skipped(report));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn rate(gb_per_second: f64) -> String {
    format!("{gb_per_second:.2}")
}

fn share(share: f64) -> String {
    format::percent(share).to_string()
}

fn size(bytes: u64) -> String {
    ByteSize::from_bytes(bytes).to_string()
}

fn facts(report: &PcieReport) -> String {
    let mut facts = TextTable::of_facts();
    if report.simulator {
        facts.row(&[
            "SIMULATED",
            "no GPU is here, and no figure below means anything: bytes were checked, times are the CPU's",
        ]);
    }
    let device = &report.device;
    facts.row(&[
        "GPU",
        &format!(
            "{}, {} multiprocessors, driver for CUDA {}",
            device.name, device.multiprocessors, device.driver
        ),
    ]);
    let sizes = &report.copy_engine.sizes;
    let sizes: Vec<String> = sizes
        .iter()
        .map(|copy| format!("{} at {}", rate(copy.gb_per_second), size(copy.bytes as u64)))
        .collect();
    facts.row(&["copy engine", &format!("{} GB/s", rate(report.copy_engine.peak_gb_per_second))]);
    facts.row(&["", &sizes.join(", ")]);
    facts.row(&[
        "128-byte reads",
        &format!("{} GB/s, the best of all cells with rows of whole lines", rate(report.zero_copy_ceiling)),
    ]);
    let base = &report.base;
    facts.row(&["base point", &base.name()]);
    for table in &report.tables {
        let huge = table
            .transparent_huge_bytes
            .map_or_else(String::new, |huge| format!(", {} on huge pages", size(huge)));
        facts.row(&[
            "table",
            &format!(
                "{} on {} pages{huge}; filled in {}, pinned in {}",
                size(table.bytes),
                table.pages.name(),
                format::seconds(table.fill_seconds),
                format::seconds(table.pin.seconds)
            ),
        ]);
    }
    facts.row(&[
        "measured",
        &format!(
            "medians of {} samples of up to {}, every cell's bytes verified, in {}",
            report.sample_count,
            size(report.sample_bytes as u64),
            format::seconds(report.seconds)
        ),
    ]);
    facts.render()
}

/// The measured figure of a cell, for any axis.
fn find<'r>(report: &'r PcieReport, wanted: &Cell) -> Option<&'r CellFigure> {
    let point = |cell: &Cell| {
        (
            cell.kernel,
            cell.row_bytes,
            cell.multiprocessors,
            cell.partition,
            cell.pages,
            cell.table_bytes,
            cell.ids,
        )
    };
    report.cells.iter().find(|figure| point(&figure.cell) == point(wanted))
}

fn by_row_bytes(report: &PcieReport) -> String {
    let base = &report.base;
    let mut rows: Vec<usize> = report.cells.iter().map(|figure| figure.cell.row_bytes).collect();
    rows.sort_unstable();
    rows.dedup();
    let mut heading = vec!["row bytes, GB/s"];
    heading.extend(Kernel::ALL.map(Kernel::name));
    heading.extend(["wide of copy engine", "of 128-byte reads", "model leaves", "of that"]);
    let mut table = TextTable::with_heading(&heading);
    for row_bytes in rows {
        let figure = |kernel| find(report, &Cell { kernel, row_bytes, ..base.clone() });
        let cell = |kernel| figure(kernel).map_or_else(String::new, |figure| rate(figure.gb_per_second));
        let wide = |value: &dyn Fn(&CellFigure) -> Option<f64>| {
            figure(Kernel::Wide).and_then(value).map_or_else(String::new, share)
        };
        let mut row = vec![row_bytes.to_string()];
        row.extend(Kernel::ALL.map(cell));
        row.extend([
            wide(&|figure| Some(figure.share_of_copy_engine)),
            wide(&|figure| Some(figure.share_of_ceiling)),
            wide(&|figure| figure.model_ceiling),
            wide(&|figure| figure.share_of_model),
        ]);
        table.row(&row);
    }
    table.render()
}

fn by_multiprocessors(report: &PcieReport) -> String {
    let base = &report.base;
    // The largest point is the one with all multiprocessors.
    let mut points: Vec<(bool, Option<u32>)> = report
        .cells
        .iter()
        .map(|figure| (figure.cell.multiprocessors.is_none(), figure.cell.multiprocessors))
        .collect();
    points.sort_unstable();
    points.dedup();
    let mut heading = vec!["multiprocessors (grid), GB/s"];
    heading.extend(Kernel::ALL.map(Kernel::name));
    let mut table = TextTable::with_heading(&heading);
    for (_, multiprocessors) in points {
        let cell = |kernel| {
            find(report, &Cell { kernel, multiprocessors, ..base.clone() })
                .map_or_else(String::new, |figure| rate(figure.gb_per_second))
        };
        let name = multiprocessors.map_or_else(|| "all".to_owned(), |some| some.to_string());
        let mut row = vec![name];
        row.extend(Kernel::ALL.map(cell));
        table.row(&row);
    }
    table.render()
}

fn flat(report: &PcieReport, wanted: &dyn Fn(&Cell) -> bool) -> String {
    let mut figures: Vec<&CellFigure> = report.cells.iter().filter(|figure| wanted(&figure.cell)).collect();
    if figures.is_empty() {
        return String::new();
    }
    figures.sort_by_key(|figure| figure.cell.axis);
    let mut table = TextTable::with_heading(&[
        "axis",
        "kernel",
        "row bytes",
        "multiprocessors",
        "pages",
        "table",
        "ids",
        "GB/s",
        "of copy engine",
        "of 128-byte reads",
        "of model",
    ]);
    for figure in figures {
        let cell = &figure.cell;
        let multiprocessors = match (cell.multiprocessors, cell.partition) {
            (None, _) => "all".to_owned(),
            (Some(some), GatherPartition::Grid) => format!("grid {some}"),
            (Some(some), GatherPartition::Green) => format!("green {some}"),
        };
        table.row(&[
            cell.axis.to_owned(),
            cell.kernel.name().to_owned(),
            cell.row_bytes.to_string(),
            multiprocessors,
            cell.pages.name().to_owned(),
            size(cell.table_bytes),
            cell.ids.name().to_owned(),
            rate(figure.gb_per_second),
            share(figure.share_of_copy_engine),
            share(figure.share_of_ceiling),
            figure.share_of_model.map_or_else(String::new, share),
        ]);
    }
    table.render()
}

fn ways(report: &PcieReport) -> String {
    if report.ways.is_empty() {
        return String::new();
    }
    let mut table = TextTable::with_heading(&[
        "way",
        "row bytes",
        "threads",
        "GB/s",
        "of copy engine",
        "read by multiprocessors",
    ]);
    for way in &report.ways {
        table.row(&[
            way.way.name().to_owned(),
            way.row_bytes.to_string(),
            way.threads.to_string(),
            rate(way.gb_per_second),
            share(way.gb_per_second / report.copy_engine.peak_gb_per_second),
            share(way.zero_copy_share),
        ]);
    }
    table.render()
}

fn goals(report: &PcieReport) -> String {
    if report.reach.is_empty() {
        return String::new();
    }
    let mut table = TextTable::of_facts();
    for goal in &report.reach {
        table.row(&[
            if goal.met { "reached" } else { "NOT reached" },
            &format!("{} of {}", share(goal.measured), share(goal.wanted)),
            goal.what,
            &goal.at,
        ]);
    }
    table.render()
}

/// The skipped cells, with one line per reason.
fn skipped(report: &PcieReport) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for skipped in &report.skipped {
        *reasons.entry(&skipped.why).or_default() += 1;
    }
    let line = |(why, cells): (&str, usize)| {
        format!("not measured: {cells} {}: {why}\n", if cells == 1 { "cell" } else { "cells" })
    };
    reasons.into_iter().map(line).collect()
}
