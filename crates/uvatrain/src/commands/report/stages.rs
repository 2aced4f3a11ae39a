//! The picture of the pipeline: what each role did with its time, as stacked areas.

use std::fmt::Write;

use super::axis::{Axis, TimeUnit, stretch};
use super::chart::{Figure, figure, hovers, percent, stretched, thousandths, x_labels};
use super::html::{Table, escape};
use super::roles::sums;
use super::run::Run;
use super::timeline::{DOINGS, ROLES, Window};
use crate::ui::format;

/// Of a role's strip, and of the line above it that names it.
const STRIP: u32 = 62;
const NAME: u32 = 24;
const STEP: u32 = STRIP + NAME + 6;

/// The figure, at most so many stretches; nothing where no batch was trained.
pub fn figure_of(run: &Run, id: &str, wanted: usize) -> String {
    let (width, windows) = run.timeline.windows(wanted);
    let length = run.timeline.length();
    if windows.is_empty() || length == 0 {
        return String::new();
    }
    let unit = TimeUnit::of(length);
    let axis = Axis::exactly(0.0, length as f64 / unit.microseconds, 5);
    let sums = sums(run);
    let stretches: Vec<Stretch> = windows
        .iter()
        .enumerate()
        .map(|(index, window)| {
            let from = index as u64 * width;
            // The last is as long as the run goes on.
            let to = (from + width).min(length).max(from + 1);
            Stretch { from: from as f64, to: to as f64, window: *window }
        })
        .collect();
    let mut inner = String::new();
    let mut description = String::from("Shares of each role's time. ");
    for (role, name) in ROLES.iter().enumerate() {
        let top = role as u32 * STEP + NAME;
        let processes = match role {
            0 if run.timeline.samplers() > 1 => format!("s, mean of {}", run.timeline.samplers()),
            _ => String::new(),
        };
        let working = format::percent(sums[role].working());
        let _ = writeln!(
            inner,
            "<text class=\"role\" x=\"0\" y=\"{}\">{name}{processes}</text>\
             <text x=\"100%\" y=\"{}\" text-anchor=\"end\">worked {working}</text>\
             <rect class=\"unknown\" x=\"0\" y=\"{top}\" width=\"100%\" height=\"{STRIP}\"/>",
            top - 7,
            top - 7
        );
        let _ = write!(description, "The {name} worked {working} of it. ");
        inner += &stretched(&areas(&stretches, role, length as f64), &top.to_string(), &STRIP.to_string());
    }
    for mark in run.timeline.resumed() {
        let x = percent(*mark as f64 / length as f64);
        let _ = write!(inner, "<line class=\"mark\" x1=\"{x}\" x2=\"{x}\" y1=\"{NAME}\" y2=\"100%\"/>");
    }
    let told: Vec<(f64, f64, String)> = stretches
        .iter()
        .map(|stretch| (stretch.from / unit.microseconds, stretch.to / unit.microseconds, stretch.told()))
        .collect();
    inner += &hovers(&axis, &told);
    let height = STEP * ROLES.len() as u32 - 6;
    figure(&Figure {
        id,
        title: "What each stage did",
        description: &description,
        legend: &legend(),
        height,
        axes: &x_labels(&axis, height),
        inner: &inner,
        x_name: &format!("{} since the first batch began", unit.name),
        wide: true,
    })
}

/// A stretch of the run's time, in microseconds.
struct Stretch {
    from: f64,
    to: f64,
    window: Window,
}

impl Stretch {
    fn shares(&self, role: usize) -> [f64; 3] {
        self.window.shares(role, self.to - self.from)
    }

    fn told(&self) -> String {
        let mut text = stretch(self.from, self.to);
        for (role, name) in ROLES.iter().enumerate() {
            let [working, input, output] = self.shares(role).map(|share| format!("{:.0} %", 100.0 * share));
            let _ =
                write!(text, "\n{name}: working {working}, waiting for input {input}, for output {output}");
        }
        text
    }
}

/// The three areas of a role, one on the other.
fn areas(stretches: &[Stretch], role: usize, length: f64) -> String {
    let mut html = String::new();
    for doing in 0..DOINGS.len() {
        let mut path = String::new();
        for stretch in stretches {
            let shares = stretch.shares(role);
            let below = shares[..doing].iter().sum::<f64>().min(1.0);
            let above = (below + shares[doing]).min(1.0);
            if above - below < 5e-4 {
                continue;
            }
            let (left, right) = (thousandths(stretch.from / length), thousandths(stretch.to / length));
            let (low, high) = (thousandths(1.0 - below), thousandths(1.0 - above));
            let _ = write!(path, "M{left} {low}V{high}H{right}V{low}Z");
        }
        if !path.is_empty() {
            let _ = write!(html, "<path class=\"doing{doing}\" d=\"{path}\"/>");
        }
    }
    html
}

fn legend() -> String {
    let mut items = String::new();
    for (doing, name) in DOINGS.iter().enumerate() {
        let _ = write!(items, "<li><span class=\"swatch doing{doing}\"></span>{name}</li>");
    }
    format!(
        "<ul class=\"legend\">{items}\
         <li><span class=\"swatch unknown\"></span>start, validation, end</li></ul>\n"
    )
}

/// The same in numbers, with the speed: some rows over the run's time.
pub fn table(run: &Run) -> Option<String> {
    let (width, windows) = run.timeline.windows(12);
    let length = run.timeline.length();
    if windows.is_empty() || length == 0 {
        return None;
    }
    let mut columns = vec!["time".to_owned(), "batches/s".to_owned()];
    for role in ROLES {
        columns.extend(["working", "input", "output"].map(|doing| format!("{role}: {doing}")));
    }
    let mut table = Table::new(
        "What each stage did and batches a second, as a table",
        &columns.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    for (index, window) in windows.iter().enumerate() {
        let from = index as u64 * width;
        let to = (from + width).min(length);
        let span = to.saturating_sub(from) as f64;
        let speed = window.speed(span).map_or("–".to_owned(), |speed| format!("{speed:.1}"));
        let mut row = vec![stretch(from as f64, to as f64), speed];
        for role in 0..ROLES.len() {
            row.extend(window.shares(role, span).map(|share| format!("{:.0} %", 100.0 * share)));
        }
        table.row(&row);
    }
    Some(table.folded())
}

/// A role's name with how many processes it has.
pub fn role_name(role: &str, processes: usize) -> String {
    escape(&if processes > 1 { format!("{role} × {processes}") } else { role.to_owned() })
}
