//! Several runs beside each other: their figures, what they differ in, and their curves in one picture.

use std::collections::BTreeSet;

use super::chart::sample;
use super::curves::Overlay;
use super::html::{Table, escape};
use super::page::Scale;
use super::roles::sums;
use super::run::Run;
use super::section::{Shown, device, epochs, flat_options, last_loss, results, seconds, side_by_side, speed};
use super::timeline::ROLES;
use crate::ui::bottleneck::bottleneck;
use crate::ui::format;

/// The part of the page before the runs themselves.
pub fn of(runs: &[(String, &Run)], scale: Scale) -> String {
    let mut html = String::from("<section>\n<h2>Compared</h2>\n");
    html += &figures(runs);
    let overlay = Overlay { runs, id: "all", points: scale.points, hovers: 0 };
    html += &side_by_side([overlay.speed(), overlay.loss(), overlay.accuracy()]);
    html += &differences(runs);
    html + "</section>\n"
}

fn figures(runs: &[(String, &Run)]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for Shown { name, .. } in runs.iter().flat_map(|(_, run)| results(run)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut columns = vec!["run", "dataset", "device", "epochs", "time", "batches/s", "last loss"];
    columns.extend(&names);
    columns.extend(["bottleneck", "sampler works", "producer works", "consumer works"]);
    let mut table = Table::new("Key figures", &columns);
    for (index, (name, run)) in runs.iter().enumerate() {
        let ended = if run.end.is_some() { "" } else { " (no end)" };
        let link = format!("{}<a href=\"#run{}\">{}</a>{ended}", sample(index), index + 1, escape(name));
        let sums = sums(run);
        let known = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
        let mut row = vec![
            run.dataset().to_owned(),
            device(run),
            format::count(epochs(run)),
            format::seconds(seconds(run)),
            known(speed(run).map(|speed| format!("{speed:.1}"))),
            known(last_loss(run).map(|loss| format!("{loss:.4}"))),
        ];
        let results = results(run);
        for name in &names {
            let result = results.iter().find(|shown| shown.name == *name);
            row.push(known(result.map(|shown| format::percent(shown.value).to_string())));
        }
        row.push(known(bottleneck(&sums).map(|role| ROLES[role].to_owned())));
        row.extend(sums.iter().map(|sum| format!("{:.0} %", 100.0 * sum.working())));
        let cells: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
        table.row_of_html(&[&[link], &cells[..]].concat());
    }
    table.html()
}

/// Options that not all of them have alike.
fn differences(runs: &[(String, &Run)]) -> String {
    let options: Vec<Vec<(String, String)>> = runs.iter().map(|(_, run)| flat_options(run)).collect();
    let names: BTreeSet<&String> = options.iter().flatten().map(|(name, _)| name).collect();
    let mut columns = vec!["option"];
    columns.extend(runs.iter().map(|(name, _)| name.as_str()));
    let mut table = Table::new("Options in which they differ", &columns);
    let mut any = false;
    for name in names {
        let value = |of: &Vec<(String, String)>| {
            of.iter().find(|(other, _)| other == name).map_or("–".to_owned(), |(_, value)| value.clone())
        };
        let values: Vec<String> = options.iter().map(value).collect();
        // Where a run's metrics go differs always.
        if values.iter().all(|value| *value == values[0]) || name == "metrics" {
            continue;
        }
        any = true;
        table.row(&[std::slice::from_ref(name), &values[..]].concat());
    }
    if any { table.html() } else { "<p>Their options are the same.</p>\n".to_owned() }
}
