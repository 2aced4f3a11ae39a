//! A partition as a picture: the sizes of its parts, and the edges between them.

use std::fmt::Write;

use uva_partition::Partition;

use crate::ui::format;

/// The most parts that are drawn.
const MOST_DRAWN: usize = 64;
/// The most parts for whose pairs there is room to write a number.
const MOST_NUMBERED: usize = 10;

const TOP: f64 = 84.0;
const BARS_LEFT: f64 = 60.0;
const BARS_WIDTH: f64 = 300.0;
const MATRIX_LEFT: f64 = 430.0;
const MATRIX_SIZE: f64 = 420.0;
/// The opacity of a cell that has all entries: numbers stay readable on it.
const MOST_OPAQUE: f64 = 0.6;

const STYLE: &str = "\
<style>
  text { fill: #202124; font-size: 13px }
  .title { font-weight: 600; font-size: 15px }
  .tick { fill: #5f6368; font-size: 12px }
  .page { fill: #ffffff }
  .nodes { fill: #0072b2 } .train { fill: #d55e00 } .cell { fill: #0072b2; stroke: #dadce0; stroke-width: 0.5 }
  .mean { stroke: #5f6368; stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e8eaed } .tick { fill: #bdc1c6 } .page { fill: #202124 }
    .nodes { fill: #6cb8f0 } .train { fill: #ff8a3d } .cell { fill: #6cb8f0; stroke: #3c4043 } .mean { stroke: #bdc1c6 }
  }
</style>
";

/// The picture as the text of an SVG file. `name` is the dataset's.
pub fn svg(name: &str, partition: &Partition) -> String {
    let parts = partition.parts as usize;
    let drawn = parts.min(MOST_DRAWN);
    let step = (MATRIX_SIZE / drawn as f64).min(48.0);
    let height = TOP + step * drawn as f64 + 40.0;
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 880 {height:.0}\" role=\"img\" \
         aria-labelledby=\"title description\" font-family=\"system-ui, sans-serif\">\n\
         <title id=\"title\">{name} in {parts} parts by {method}</title>\n\
         <desc id=\"description\">The nodes and training nodes of each part over the mean, and the shares of each \
         part's list entries that are nodes of each part.</desc>\n{STYLE}\
         <rect class=\"page\" width=\"880\" height=\"{height:.0}\"/>\n\
         <text class=\"title\" x=\"20\" y=\"26\">{name} in {parts} parts by {method}</text>\n\
         <text class=\"tick\" x=\"20\" y=\"46\">{cut} of the entries of neighbour lists are nodes of other parts</text>\n",
        name = escaped(name),
        method = escaped(&partition.method),
        cut = format::count(partition.edge_cut),
    );
    bars(&mut text, partition, drawn, step);
    matrix(&mut text, partition, step);
    if drawn < parts {
        let _ = writeln!(
            text,
            "<text class=\"tick\" x=\"{BARS_LEFT}\" y=\"{:.1}\">the first {drawn} of {parts} parts</text>",
            height - 14.0
        );
    }
    text + "</svg>\n"
}

/// Nodes and training nodes of each part, over the mean.
fn bars(text: &mut String, partition: &Partition, drawn: usize, step: f64) {
    let over_mean = |counts: &[u64]| -> Vec<f64> {
        let mean = (counts.iter().sum::<u64>() as f64 / counts.len() as f64).max(f64::MIN_POSITIVE);
        counts.iter().map(|count| *count as f64 / mean).collect()
    };
    let kinds = [
        ("nodes", "nodes", &partition.nodes, over_mean(&partition.nodes)),
        ("train", "training nodes", &partition.train, over_mean(&partition.train)),
    ];
    let most = kinds.iter().flat_map(|(.., shares)| shares).copied().fold(1.0, f64::max);
    let thick = (0.35 * step).min(14.0);
    for (place, (class, what, counts, shares)) in kinds.iter().enumerate() {
        let legend = BARS_LEFT + 120.0 * place as f64;
        let _ = write!(
            text,
            "<rect class=\"{class}\" x=\"{legend}\" y=\"62\" width=\"10\" height=\"10\"/>\n\
             <text class=\"tick\" x=\"{:.1}\" y=\"71\">{what}</text>\n",
            legend + 15.0
        );
        for (part, (count, share)) in counts.iter().zip(shares).take(drawn).enumerate() {
            let y = TOP + step * part as f64 + 0.12 * step + thick * place as f64;
            let _ = writeln!(
                text,
                "<rect class=\"{class}\" x=\"{BARS_LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{thick:.1}\">\
                 <title>part {part}: {} {what}, {share:.3} of the mean</title></rect>",
                BARS_WIDTH * share / most,
                format::count(*count)
            );
        }
    }
    // Numbers of parts as far as they have room.
    let every = (12.0 / step).ceil().max(1.0) as usize;
    for part in (0..drawn).step_by(every) {
        let y = TOP + step * (part as f64 + 0.5) + 4.0;
        let _ = writeln!(
            text,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{part}</text>",
            BARS_LEFT - 8.0
        );
    }
    let (x, bottom) = (BARS_LEFT + BARS_WIDTH / most, TOP + step * drawn as f64);
    let _ = write!(
        text,
        "<line class=\"mean\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>\n\
         <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">mean</text>\n",
        bottom + 16.0
    );
}

/// The entries of each part's lists by the part of the entry, as shades.
fn matrix(text: &mut String, partition: &Partition, step: f64) {
    let Some(between) = &partition.between else { return };
    let parts = partition.parts as usize;
    let _ = writeln!(
        text,
        "<text class=\"tick\" x=\"{MATRIX_LEFT}\" y=\"71\">entries of a part's lists (row), by their part (column)</text>"
    );
    for (part, row) in between.chunks(parts).enumerate() {
        let all = row.iter().sum::<u64>().max(1) as f64;
        let y = TOP + step * part as f64;
        for (other, &entries) in row.iter().enumerate() {
            let (x, share) = (MATRIX_LEFT + step * other as f64, entries as f64 / all);
            let opacity = MOST_OPAQUE * share;
            let _ = writeln!(
                text,
                "<rect class=\"cell\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{step:.1}\" height=\"{step:.1}\" \
                 fill-opacity=\"{opacity:.3}\"><title>{} entries of part {part}'s lists are nodes of part {other} \
                 ({:.1} %)</title></rect>",
                format::count(entries),
                100.0 * share
            );
            if parts <= MOST_NUMBERED {
                let _ = writeln!(
                    text,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0} %</text>",
                    x + 0.5 * step,
                    y + 0.5 * step + 4.0,
                    100.0 * share
                );
            }
        }
    }
}

/// Text as SVG has it. Control characters have no place in a name, and none in XML.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '&' => escaped += "&amp;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            character if character.is_control() || ['\u{fffe}', '\u{ffff}'].contains(&character) => {
                escaped.push('\u{fffd}');
            }
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn partition(parts: usize, between: bool) -> Partition {
        Partition {
            parts: parts as u32,
            of: Vec::new(),
            method: "ldg+refine".to_owned(),
            nodes: (0..parts as u64).map(|part| 100 + part).collect(),
            train: vec![0; parts],
            blocks: None,
            edge_cut: 1234,
            between: between.then(|| (0..parts * parts).map(|pair| pair as u64).collect()),
            candidates: Vec::new(),
            seconds: BTreeMap::new(),
        }
    }

    #[test]
    fn names_cannot_leave_their_place_in_the_picture() {
        let picture = svg("<script>\"&'\u{1b}\n", &partition(2, true));
        assert!(picture.contains("&lt;script&gt;&quot;&amp;&#39;\u{fffd}\u{fffd} in 2 parts by ldg+refine"));
        assert!(!picture.contains("<script"));
    }

    #[test]
    fn every_part_has_bars_and_every_pair_a_cell_as_far_as_there_is_room() {
        let count = |picture: &str, what: &str| picture.matches(what).count();
        let few = svg("few", &partition(4, true));
        assert_eq!((count(&few, "class=\"cell\""), count(&few, "of the mean")), (16, 8));
        assert!(few.contains("1,234 of the entries") && few.contains("part 3: 103 nodes, 1.015 of the mean"));
        // Row 1 has 4 to 7 of 22 entries.
        assert!(few.contains("5 entries of part 1's lists are nodes of part 1 (22.7 %)"));
        let many = svg("many", &partition(70, false));
        assert_eq!((count(&many, "class=\"cell\""), count(&many, "of the mean")), (0, 128));
        assert!(many.contains("the first 64 of 70 parts"));
        assert!(!many.contains("NaN") && !many.contains("inf"), "no training nodes");
    }
}
