//! `uvatrain report`: makes an HTML page from the files of `--metrics`.
//!
//! | file | content |
//! |---|---|
//! | `read` | reads a metrics file line by line, with its errors |
//! | `run`, `timeline` | the figures of a run, and how its time was spent |
//! | `stretches`, `histogram` | sums in memory that does not grow with the file |
//! | `chart` | axes, lines and legends, drawn by plotters, independent of runs |
//! | `stages`, `curves`, `sizes` | the pictures |
//! | `view` | the template's view of a run |
//! | `page`, `page.html`, `style.css`, `point.js` | the template and its filters |

mod chart;
mod curves;
mod histogram;
mod page;
mod read;
mod run;
mod sizes;
mod stages;
mod stretches;
mod timeline;
mod view;

use uva_mem::files::write_output;

use crate::exit;
use crate::flags::training::ReportFlags;
use crate::runs::pipeline::check_outputs;
use crate::ui::out;
use crate::ui::work::Work;
use uva_runtime::spec::ByteSize;

/// More runs cannot be distinguished in one picture. The limit bounds the page to a size that browsers handle well.
const MOST_RUNS: usize = 24;

/// Reads the runs, writes the page, and prints its path.
pub fn run(flags: &ReportFlags) -> anyhow::Result<()> {
    check(flags)?;
    let work = Work::of_unknown_length("reading");
    let runs = flags.runs.iter().map(|path| read::run(path)).collect::<anyhow::Result<Vec<_>>>()?;
    drop(work);
    let page = page::of(&runs)?;
    write_output(&flags.out, page.as_bytes()).map_err(|error| exit::of_output("--out", &flags.out, error))?;
    let size = ByteSize::from_bytes(page.len() as u64);
    out::say(&format!("{}: {size}, open it in a browser", flags.out.display()));
    Ok(())
}

/// Early checks for errors that would otherwise appear only after all the work, or would overwrite an input.
fn check(flags: &ReportFlags) -> anyhow::Result<()> {
    let out = &flags.out;
    if flags.runs.len() > MOST_RUNS {
        let count = flags.runs.len();
        return Err(exit::usage(format!("{count} runs: at most {MOST_RUNS} go into one report")).into());
    }
    if out.is_dir() {
        return Err(exit::usage(format!("--out {}: it is a folder; name a file in it", out.display())).into());
    }
    if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        return Err(exit::usage(format!("--out: there is no folder {}", folder.display())).into());
    }
    let runs: Vec<_> = flags.runs.iter().map(|run| Some(run.as_path())).collect();
    check_outputs(&[("--out", Some(out))], &runs)?;
    Ok(())
}
