//! The picture of the pipeline: what each stage did with its time, as stacked areas.

use std::fmt::Write;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::chart::{Axes, Canvas, ChartFigure, DOINGS, RULE, UNIT, UNKNOWN, draw_marks, hex, key_of_marks};
use super::curves::unit;
use super::run::Run;
use super::timeline::{self, ROLES, Stretch};
use crate::ui::bottleneck::RoleSum;
use crate::ui::format;

/// Height of the space for a strip's name above the strip, which is 1 high.
const NAME: f64 = 0.54;

/// The figure, with a limited number of stretches. A second drawing serves phones.
///
/// # Errors
/// If plotters cannot draw.
pub fn figure(run: &Run, sums: &[RoleSum; 3], id: &str, wanted: usize) -> anyhow::Result<ChartFigure> {
    let length = run.timeline.length();
    let (unit, microseconds) = unit(length);
    let mut description = String::from("Shares of each role's time.");
    for (name, sum) in ROLES.iter().zip(sums) {
        let _ = write!(description, " The {name} worked {} of it.", format::percent(sum.working()));
    }
    let marks: Vec<f64> = run.timeline.resumed().iter().map(|mark| *mark as f64 / microseconds).collect();
    let picture = |width: u32, wanted: usize| {
        let stretches = run.timeline.stretches(wanted);
        let axes = Axes {
            size: (width, 306),
            x: 0.0..length as f64 / microseconds,
            y: 0.0..3.0 * (1.0 + NAME),
            x_ticks: width as usize / 70,
            y_label: None,
        };
        let told = stretches.iter().map(|s| (s.from / microseconds, s.to / microseconds, told(s)));
        axes.draw(&told.collect::<Vec<_>>(), |chart| {
            for (role, sum) in sums.iter().enumerate() {
                draw_strip(chart, &stretches, microseconds, role)?;
                draw_names(chart, run, role, sum)?;
            }
            draw_marks(chart, &marks)
        })
    };
    let areas = DOINGS.into_iter().zip(timeline::DOINGS).chain([(UNKNOWN, "start, validation, end")]);
    let legend = areas.map(|(colour, name)| ("area", hex(colour), name.to_owned()));
    Ok(ChartFigure {
        id: format!("{id}-stages"),
        title: "What each stage did".to_owned(),
        description,
        legend: legend.chain(key_of_marks(&marks)).collect(),
        pictures: vec![picture(1072, wanted)?, picture(480, wanted / 2)?],
        axis: format!("{unit} since the first batch began"),
    })
}

/// The lower edge of a role's strip.
fn base(role: usize) -> f64 {
    (ROLES.len() - 1 - role) as f64 * (1.0 + NAME)
}

/// The three areas of a role, the highest first, so that the others cover it.
fn draw_strip(
    chart: &mut Canvas<'_, '_>,
    stretches: &[Stretch],
    microseconds: f64,
    role: usize,
) -> anyhow::Result<()> {
    let (base, x) = (base(role), chart.x_range());
    let corners = [(x.start, base), (x.end, base + 1.0)];
    chart.draw_series(
        [UNKNOWN.filled(), RULE.into()].map(|style: ShapeStyle| Rectangle::new(corners, style)),
    )?;
    for doing in (0..DOINGS.len()).rev() {
        let mut outline = vec![(x.start, base)];
        for stretch in stretches {
            let height = stretch.shares(role)[..=doing].iter().sum::<f64>().min(1.0);
            outline.extend([stretch.from, stretch.to].map(|at| (at / microseconds, base + height)));
        }
        outline.push((x.end, base));
        chart.draw_series([Polygon::new(outline, DOINGS[doing])])?;
    }
    Ok(())
}

/// Draws the role's name on the left above its strip, and its working share on the right.
fn draw_names(chart: &mut Canvas<'_, '_>, run: &Run, role: usize, sum: &RoleSum) -> anyhow::Result<()> {
    let samplers = run.timeline.samplers();
    let name = match role {
        0 if samplers > 1 => format!("{}s, mean of {samplers}", ROLES[role]),
        _ => ROLES[role].to_owned(),
    };
    let worked = format!("worked {}", format::percent(sum.working()));
    let (x, y) = (chart.x_range(), base(role) + 1.0 + NAME / 4.0);
    for (text, x, at) in [(name, x.start, HPos::Left), (worked, x.end, HPos::Right)] {
        let style = TextStyle::from(("sans-serif", 16 * UNIT).into_font()).pos(Pos::new(at, VPos::Bottom));
        chart.draw_series([Text::new(text, (x, y), style)])?;
    }
    Ok(())
}

fn told(stretch: &Stretch) -> String {
    let mut text = stretch.time();
    for (role, name) in ROLES.iter().enumerate() {
        let [working, input, output] = stretch.shares(role).map(|share| format!("{:.0} %", 100.0 * share));
        let _ = write!(text, "\n{name}: working {working}, waiting for input {input}, for output {output}");
    }
    text
}
