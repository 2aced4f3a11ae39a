//! A plan as text: a table of the cached lists and rows, and both curves as a plot.

use uva_plan::{Basis, CachePlan, CurvePoint, Prediction, TimedFit};

use crate::ui::format;
use crate::ui::table::TextTable;
use uva_runtime::spec::ByteSize;

/// Columns and rows of the plot.
const WIDTH: usize = 60;
const HEIGHT: usize = 12;

/// The whole plan.
pub fn of_plan(plan: &CachePlan) -> String {
    let mut text = caches(plan);
    text.push('\n');
    text += &expectations(plan);
    text.push('\n');
    text += &plot(plan);
    text.push('\n');
    text += &by_bytes(plan);
    text.push('\n');
    text += &facts(plan);
    text
}

fn caches(plan: &CachePlan) -> String {
    let mut table = TextTable::with_heading(&["cache", "entries", "bytes", "map", "hit rate expected"]);
    for (name, share) in [("lists", &plan.lists), ("rows", &plan.rows)] {
        table.row(&[
            name.to_owned(),
            format::count(share.count),
            ByteSize::from_bytes(share.bytes).to_string(),
            ByteSize::from_bytes(share.map_bytes).to_string(),
            format::percent(share.hit_rate).to_string(),
        ]);
    }
    table.render()
}

/// The cost of each division of the budget.
fn expectations(plan: &CachePlan) -> String {
    let mut table = TextTable::with_heading(&[
        "the budget for",
        "lists hit",
        "rows hit",
        "sampling",
        "gathering",
        "not cached",
    ]);
    let milliseconds = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.3} ms"));
    let mut row = |name: &str, of: &Prediction| {
        table.row(&[
            name.to_owned(),
            format::percent(of.list_hit_rate).to_string(),
            format::percent(of.row_hit_rate).to_string(),
            milliseconds(of.sampling_ms),
            milliseconds(of.gathering_ms),
            ByteSize::from_bytes(of.link_bytes as u64).to_string(),
        ]);
    };
    row("nothing", &plan.predictions.none);
    row("lists only", &plan.predictions.all_lists);
    row("rows only", &plan.predictions.all_rows);
    row("both, as planned", &plan.predictions.chosen);
    table.render()
}

/// Hit rate against bytes for both caches; the division chosen is marked on each.
fn plot(plan: &CachePlan) -> String {
    let most = |points: &[CurvePoint]| {
        let within = |point: &&CurvePoint| point.bytes <= plan.budget_bytes.saturating_mul(2);
        points.iter().filter(within).map(|point| point.bytes).max().unwrap_or(0)
    };
    let end = most(&plan.curves.lists).max(most(&plan.curves.rows));
    if end == 0 {
        return String::new();
    }
    let mut cells = vec![[' '; WIDTH + 1]; HEIGHT + 1];
    let mut mark = |bytes: u64, hit_rate: f64, sign: char| {
        let column = (bytes as f64 / end as f64 * WIDTH as f64).round() as usize;
        let row = HEIGHT - (hit_rate.clamp(0.0, 1.0) * HEIGHT as f64).round() as usize;
        if column <= WIDTH {
            cells[row][column] = sign;
        }
    };
    for (points, sign) in [(&plan.curves.lists, 'l'), (&plan.curves.rows, 'r')] {
        for point in points {
            mark(point.bytes, point.hit_rate, sign);
        }
    }
    for (share, sign) in [(&plan.lists, 'L'), (&plan.rows, 'R')] {
        if share.count > 0 {
            mark(share.bytes, share.hit_rate, sign);
        }
    }
    let mut text = String::from("hit rate by bytes: lists l, rows r; as planned L and R\n");
    for (row, line) in cells.iter().enumerate() {
        let label = match HEIGHT - row {
            HEIGHT => "100 %",
            0 => "  0 %",
            left if left * 2 == HEIGHT => " 50 %",
            _ => "     ",
        };
        let line: String = line.iter().collect();
        text += format!("{label} │{line}").trim_end();
        text.push('\n');
    }
    text += &format!("      └{}\n", "─".repeat(WIDTH + 1));
    let end = ByteSize::from_bytes(end).to_string();
    text += &format!("       0{end:>width$}\n", width = WIDTH);
    text
}

/// The expected hit rate and time per batch for each cache size in bytes, for each cache alone.
fn by_bytes(plan: &CachePlan) -> String {
    let mut table =
        TextTable::with_heading(&["a cache of", "lists hit", "sampling", "rows hit", "gathering"]);
    let hit_rate = |points: &[CurvePoint], bytes: u64| {
        points.iter().filter(|point| point.bytes <= bytes).map(|point| point.hit_rate).fold(0.0, f64::max)
    };
    let cost = |ms: Option<f64>, missed: u64| match ms {
        Some(ms) if plan.model.benefits().milliseconds => format!("{ms:.3} ms"),
        _ => format!("{} missed", ByteSize::from_bytes(missed)),
    };
    for eighths in [0, 1, 2, 4, 8, 16] {
        let bytes = (u128::from(plan.budget_bytes) * eighths / 8) as u64;
        let (lists, rows) = (hit_rate(&plan.curves.lists, bytes), hit_rate(&plan.curves.rows, bytes));
        let expected = plan.model.predict(lists, rows);
        table.row(&[
            ByteSize::from_bytes(bytes).to_string(),
            format::percent(lists).to_string(),
            cost(expected.sampling_ms, plan.model.predict(lists, 1.0).link_bytes as u64),
            format::percent(rows).to_string(),
            cost(expected.gathering_ms, plan.model.predict(1.0, rows).link_bytes as u64),
        ]);
    }
    table.render()
}

fn facts(plan: &CachePlan) -> String {
    let mut facts = TextTable::of_facts();
    let mut fact = |name: &str, value: String| facts.row(&[name.to_owned(), value]);
    fact("dataset", plan.dataset.name.clone());
    let used = ByteSize::from_bytes(plan.bytes());
    fact("budget", format!("{}, of which {used} are used", ByteSize::from_bytes(plan.budget_bytes)));
    fact(
        "policy",
        format!(
            "{}, {} batches counted; hit rates are judged by {}",
            plan.policy,
            format::count(plan.profile.counted_batches),
            judged_by(plan)
        ),
    );
    for (name, basis) in [("sampling", &plan.model.sampling), ("gathering", &plan.model.gathering)] {
        let text = match basis {
            Basis::Measured { line } => format!(
                "{:.3} ms a batch without hits, {:.3} ms if all hit (R² {:.2})",
                line.intercept_ms,
                line.at(1.0),
                line.r2
            ),
            Basis::Bytes { reason, .. } => format!("by bytes: {reason}"),
        };
        fact(name, text);
    }
    let r2 = |r2: Option<f64>| r2.map_or_else(|| "no line".to_owned(), |r2| format!("R² {r2:.2}"));
    for TimedFit { by, sampling_r2, gathering_r2 } in &plan.fits {
        let text = format!("{} of sampling, {} of gathering", r2(*sampling_r2), r2(*gathering_r2));
        fact(&format!("timed by {by}"), text);
    }
    if !plan.model.is_sum() {
        fact(
            "objective",
            "the slowest of sampling, gathering and the link, which work in parallel".to_owned(),
        );
    }
    fact("planned in", format::seconds(plan.profile.seconds));
    facts.render()
}

/// The batches from which the hit rates are estimated.
fn judged_by(plan: &CachePlan) -> String {
    let batches = format::count(plan.profile.observed_batches);
    if plan.policy.is_oracle() { format!("{batches} of them") } else { format!("{batches} others") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan as the program would write it to a file.
    fn plan() -> CachePlan {
        serde_json::from_value(serde_json::json!({
            "version": 1,
            "dataset": {"name": "g", "fingerprint": "0", "nodes": 10, "edges": 20, "row_bytes": 400, "index_bytes": 4},
            "options": {"fanouts": [2], "batch_size": 4, "drop_last": false, "replace": false, "seed": 0,
                        "batch_dependency": 1, "sampler_kind": "neighbor"},
            "policy": "presample",
            "budget_bytes": 2000,
            "lists": {"count": 3, "bytes": 300, "map_bytes": 40, "hit_rate": 0.5},
            "rows": {"count": 2, "bytes": 800, "map_bytes": 40, "hit_rate": 0.75},
            "model": {
                "objective": "sum",
                "sampling": {"kind": "measured", "line": {"intercept_ms": 2.0, "slope_ms": -1.0, "r2": 0.97}},
                "gathering": {"kind": "bytes", "reason": "no line fits", "mean_ms": null},
                "reads": {"lists": 10.0, "rows": 5.0},
                "row_link_bytes": 512
            },
            "timed_by": "rank", "timed_sampling": [], "timed_gathering": [],
            "fits": [{"by": "random", "sampling_r2": 0.97, "gathering_r2": 0.61},
                     {"by": "rank", "sampling_r2": 0.5, "gathering_r2": null}],
            "predictions": {
                "none": prediction(0.0, 0.0), "chosen": prediction(0.5, 0.75),
                "all_lists": prediction(0.9, 0.0), "all_rows": prediction(0.0, 1.0)
            },
            "curves": {
                "lists": [{"count": 0, "bytes": 0, "hit_rate": 0.0}, {"count": 3, "bytes": 300, "hit_rate": 0.5}],
                "rows": [{"count": 0, "bytes": 0, "hit_rate": 0.0}, {"count": 2, "bytes": 800, "hit_rate": 0.75}]
            },
            "profile": {"counted_batches": 6, "observed_batches": 1, "observed_list_reads": 10,
                        "observed_row_reads": 5, "ranked_lists": 9, "ranked_rows": 9, "timing_seconds": 0.1,
                        "seconds": 0.5},
            "notes": []
        }))
        .unwrap()
    }

    fn prediction(lists: f64, rows: f64) -> serde_json::Value {
        serde_json::json!({"list_hit_rate": lists, "row_hit_rate": rows, "sampling_ms": 1.5, "gathering_ms": null,
                           "link_bytes": 1000.0})
    }

    #[test]
    fn both_caches_and_every_division_are_shown() {
        let text = of_plan(&plan());
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        assert!(line("lists ").contains("50.0 %") && line("rows ").contains("75.0 %"), "{text}");
        assert!(line("both, as planned").contains("1.500 ms"), "{text}");
        assert!(line("sampling").contains("1.000 ms if all hit (R² 0.97)"), "{text}");
        assert!(line("gathering").contains("no line fits"), "{text}");
        assert!(line("timed by random").contains("R² 0.97 of sampling, R² 0.61 of gathering"), "{text}");
        assert!(line("timed by rank").contains("no line of gathering"), "{text}");
        assert!(line("policy").contains("6 batches counted; hit rates are judged by 1 others"), "{text}");
        let optimal = CachePlan { policy: uva_plan::CachePolicy::OPTIMAL, ..plan() };
        assert!(of_plan(&optimal).contains("judged by 1 of them"));
    }

    #[test]
    fn hit_rates_and_costs_are_shown_by_bytes() {
        let text = by_bytes(&plan());
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        // One of the two lines does not fit, so both are given in bytes.
        assert!(line("0 B").contains("0.0 %") && line("0 B").contains("320 B missed"), "{text}");
        assert!(line("500 B").contains("50.0 %") && line("500 B").contains("160 B missed"), "{text}");
        assert!(line("1000 B").contains("75.0 %") && line("1000 B").contains("640 B missed"), "{text}");
    }

    #[test]
    fn the_plot_marks_the_division_chosen_at_its_hit_rate() {
        let text = plot(&plan());
        let row = |sign: char| text.lines().skip(1).position(|line| line.contains(sign)).unwrap();
        assert_eq!((row('R'), row('L')), (3, 6), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_plan_that_caches_nothing_has_no_plot() {
        let mut plan = plan();
        plan.curves = Default::default();
        assert_eq!(super::plot(&plan), "");
    }
}
