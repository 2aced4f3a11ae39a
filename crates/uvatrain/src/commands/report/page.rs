//! The page around the runs: one file that needs nothing besides itself.

use std::path::Path;

use super::html::{escape, shortened};
use super::run::Run;
use super::{compare, section};

/// Colours, sizes and what is different on a telephone, in the dark and on paper.
const STYLE: &str = include_str!("style.css");
/// Nothing is fetched and nothing runs, whatever a file's names might have made of the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// How fine pictures are: of many runs each gets less, so that the page stays one that a browser likes.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Stretches of the pipeline's picture.
    pub windows: usize,
    /// Points of a line.
    pub points: usize,
    /// Stretches that tell something when one points at them.
    pub hovers: usize,
}

impl Scale {
    fn of(runs: usize) -> Self {
        let runs = runs.max(1);
        let share = |all: usize, least: usize, most: usize| (all / runs).clamp(least, most);
        Self { windows: share(600, 24, 120), points: share(1600, 40, 240), hovers: share(300, 12, 60) }
    }
}

/// The report on these runs.
pub fn of(runs: &[Run]) -> String {
    let named: Vec<(String, &Run)> = names(runs).into_iter().zip(runs).collect();
    let scale = Scale::of(runs.len());
    let (title, subtitle) = match &named[..] {
        [(_, run)] => (format!("Run on {}", shortened(run.dataset(), 80)), what(run)),
        several => (
            format!("{} runs compared", several.len()),
            several.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
        ),
    };
    let mut body = format!(
        "<header><p class=\"program\">uvatrain report</p><h1>{}</h1>\n<p class=\"subtitle\">{}</p></header>\n\
         <main>\n",
        escape(&title),
        escape(&shortened(&subtitle, 400))
    );
    if let [(name, run)] = &named[..] {
        body += &format!("<section id=\"run1\">\n{}</section>\n", section::of(run, "run1", name, scale));
    } else {
        body += &compare::of(&named, scale);
        for (index, (name, run)) in named.iter().enumerate() {
            let id = format!("run{}", index + 1);
            let (heading, subtitle) = (escape(name), escape(&shortened(&what(run), 400)));
            let inner = section::of(run, &id, name, scale);
            body += &format!(
                "<section id=\"{id}\" class=\"run\">\n<h2>{heading}</h2>\n<p class=\"subtitle\">{subtitle}</p>\n\
                 {inner}</section>\n"
            );
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n{body}</main>\n<footer>Made by uvatrain {version} from the runs' metrics.</footer>\n\
         </body>\n</html>\n",
        escape(&title)
    )
}

/// In one line what a run was.
fn what(run: &Run) -> String {
    let option = |name: &str| run.option(name).map(section::word);
    let model = match run.command() {
        Some(command) => format!("{}, fed by uvatrain", shortened(&command, 120)),
        None => option("model").unwrap_or_else(|| "training".to_owned()),
    };
    let fanouts = option("fanouts").map(|fanouts| format!("fanouts {fanouts}"));
    let size = option("batch_size").map(|size| format!("batches of {size}"));
    let parts = [Some(model), fanouts, size, Some(format!("on {}", section::device(run)))];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Short names that tell runs apart: their files' stems, or the files where two would be the same.
fn names(runs: &[Run]) -> Vec<String> {
    let stem = |path: &Path| path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let stems: Vec<String> = runs.iter().map(|run| stem(&run.path)).collect();
    let name = |(run, stem): (&Run, &String)| match stems.iter().filter(|other| *other == stem).count() {
        1 => stem.clone(),
        _ => run.path.display().to_string(),
    };
    runs.iter().zip(&stems).map(name).map(|name| shortened(&name, 60)).collect()
}
