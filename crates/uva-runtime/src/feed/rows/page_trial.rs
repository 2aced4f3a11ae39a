//! The choice between the pages of the mapped feature table and a copy on 2 MiB pages.

use std::time::Instant;

use uva_cuda::memory::{HostMemory, TableBytes};
use uva_graph::{Dataset, FeatureTable, Split};
use uva_mem::{ZeroedPages, huge_share, mix};
use uva_options::OptionError;
use uva_rows::{CopiedTable, HostPlace, MappedTable, RowSource};

use super::host::failed;
use super::tree::RowTree;
use crate::RuntimeError;
use crate::backend::Backend;
use crate::options::reader::HostPages;
use crate::plan::RunPlan;
use crate::plan::page_choice::{Measured, PageChoice, Rates};

/// A smaller table is read where it is: its page tables fit into the processor's caches.
const SMALL_TABLE_BYTES: u64 = 32 << 20;

/// A file with at least this fraction on 2 MiB pages is read where it is.
const MOSTLY_HUGE: f64 = 0.9;

/// Bytes of the table that are read from both kinds of pages. Their page tables of 4 KiB pages have 512 KiB, more than
/// the first level of any processor's cache. A larger table gains more.
const SAMPLE_BYTES: usize = 256 << 20;

/// Bytes of the rows that are gathered in one measurement.
const GATHERED_BYTES: usize = 32 << 20;

/// Measurements from each kind of pages, in alternation; the fastest counts.
const REPEATS: usize = 3;

/// Pages that are touched before the system reports their sizes.
const TOUCHED_PAGES: usize = 4096;

/// The saved time must be at least this multiple of the time of the copy.
const WORTHWHILE: f64 = 2.0;

/// Epochs of a run whose consumer requests each pass, so that their number is not known.
const ASSUMED_EPOCHS: u64 = 10;

impl RunPlan {
    /// Settles where a run on this backend reads rows, if it is not settled: from memory or disk, by which reader, and
    /// from which pages. For the process that plans a run, which passes the result to the others.
    ///
    /// # Errors
    /// See [`FeatureChoice::new`](crate::FeatureChoice::new). [`RuntimeError::Option`] if a copy is requested and CPU
    /// threads do not read a table from memory by node.
    pub fn with_row_places(self, dataset: &Dataset, backend: &Backend) -> Result<Self, RuntimeError> {
        let mut plan = self.with_features(dataset, backend)?;
        if plan.pages.is_none() {
            let choice = PageChoice::of_plan(&plan.clone().on(backend.clone()), dataset)?;
            // Roles check their options again, and read the mapped file unless a copy is settled.
            if choice.pages == HostPages::Huge {
                plan.options.host_pages = choice.pages;
            }
            plan.pages = Some(choice);
        }
        Ok(plan)
    }
}

impl PageChoice {
    /// Resolves the option of this plan, whose rows come from memory or from disk already. Measures if the option is
    /// open and a copy is possible.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] if a copy is requested and CPU threads do not read the table from memory by node;
    /// threads that cannot be started.
    fn of_plan(plan: &RunPlan, dataset: &Dataset) -> Result<Self, RuntimeError> {
        let mut measured = Measured::default();
        let requested = plan.options.host_pages;
        let (pages, reason) = match (requested, readable(plan, dataset)) {
            (HostPages::Huge, None) => {
                let reason = "requires CPU threads that read rows of a feature table from memory by node, which this run does not have";
                return Err(OptionError::new("host_pages", requested, reason).into());
            }
            (HostPages::Auto, None) => {
                (HostPages::Mapped, "CPU threads do not read rows of a table from memory by node".to_owned())
            }
            (HostPages::Auto, Some(table)) => decide(&mut measured, plan, &table)?,
            (requested, _) => (requested, "requested".to_owned()),
        };
        Ok(Self::new(pages, reason, measured))
    }
}

/// The table if CPU threads of this plan read its rows from memory by node.
fn readable<'d>(plan: &RunPlan, dataset: &'d Dataset) -> Option<FeatureTable<'d>> {
    let tree = RowTree::of(plan);
    let by_node = tree.any(&|tree| matches!(tree, RowTree::Mapped | RowTree::Copied))
        && !tree.any(&|tree| matches!(tree, RowTree::Tables(..) | RowTree::Split(..)));
    dataset.feature_rows().filter(|table| by_node && !table.bytes.is_empty())
}

fn decide(
    measured: &mut Measured,
    plan: &RunPlan,
    table: &FeatureTable<'_>,
) -> Result<(HostPages, String), RuntimeError> {
    let mapped = |reason: String| Ok((HostPages::Mapped, reason));
    let (bytes, gib) = (table.bytes.len() as u64, |bytes: u64| bytes as f64 / (1_u64 << 30) as f64);
    if bytes < SMALL_TABLE_BYTES {
        return mapped(format!("the table has less than {} MiB", SMALL_TABLE_BYTES >> 20));
    }
    if plan.options.part.of > 1 {
        return mapped("each rank would have a copy".to_owned());
    }
    touch(table.bytes);
    measured.huge_share = huge_share(table.bytes);
    if let Some(share) = measured.huge_share.filter(|&share| share >= MOSTLY_HUGE) {
        return mapped(format!("{:.0} % of the file is on 2 MiB pages", 100.0 * share));
    }
    let Ok(memory) = HostMemory::read() else {
        return mapped("the available memory is not known".to_owned());
    };
    let (available, bound) = memory.tightest_limit();
    // The file stays in memory as well while it is copied.
    if bytes.saturating_mul(2) > available {
        return mapped(format!(
            "a copy of {:.2} GiB next to the file does not fit into the {:.2} GiB available of {bound}",
            gib(bytes),
            gib(available)
        ));
    }
    let rates = Rates::measure(table, plan.options.gather_threads)?;
    measured.rates = Some(rates);
    let gathered = gathered_bytes(plan, table) as f64;
    let saved = gathered / rates.mapped - gathered / rates.huge;
    let cost = bytes as f64 / rates.copy;
    let figures = format!(
        "rows come at {:.1} GB/s in place of {:.1} GB/s, which saves about {saved:.1} s of gathering, and the copy takes \
             about {cost:.1} s",
        rates.huge / 1e9,
        rates.mapped / 1e9,
    );
    Ok(if saved >= WORTHWHILE * cost { (HostPages::Huge, figures) } else { (HostPages::Mapped, figures) })
}

/// Approximate bytes of the rows that the run gathers: half of the largest batches.
fn gathered_bytes(plan: &RunPlan, table: &FeatureTable<'_>) -> u64 {
    let (schedule, passes) = (&plan.schedule, plan.schedule.passes());
    let epochs = match passes.steered {
        true => ASSUMED_EPOCHS,
        false => u64::from(passes.epochs.saturating_sub(passes.start.epoch)),
    };
    let batches = |split, used: bool| if used { schedule.batches(split) } else { 0 };
    let per_epoch = schedule.batches(Split::Train) + batches(Split::Valid, passes.validate);
    let all = epochs * per_epoch + batches(Split::Test, passes.test);
    let rows = plan.layout.bounds().nodes.min(table.rows).div_ceil(2);
    all.saturating_mul(rows as u64 * table.row_bytes() as u64)
}

/// Reads from pages all over the table, so that the system maps them.
fn touch(bytes: &[u8]) {
    let step = (bytes.len() / TOUCHED_PAGES).max(1);
    std::hint::black_box(bytes.iter().step_by(step).fold(0_u8, |sum, byte| sum ^ byte));
}

impl Rates {
    /// Gathers random rows of a sample of the table, from the file's pages and from a copy.
    fn measure(table: &FeatureTable<'_>, threads: usize) -> Result<Self, RuntimeError> {
        let row_bytes = table.row_bytes();
        let rows = table.rows.min((SAMPLE_BYTES / row_bytes).max(1));
        let sample = &table.bytes[..rows * row_bytes];
        // The file's pages are in memory before the copy is timed, since the run reads them in any case.
        std::hint::black_box(sample.iter().step_by(4096).fold(0_u8, |sum, byte| sum ^ byte));
        let began = Instant::now();
        let copied = CopiedTable::new(sample, threads).map_err(failed)?;
        let copy = sample.len() as f64 / began.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        let gathered = (GATHERED_BYTES / row_bytes).max(1);
        let mut out = ZeroedPages::new(gathered * row_bytes)
            .map_err(|error| RuntimeError::failed(format!("no memory to measure gathers: {error}")))?;
        let mut rate = |bytes: &[u8], repeat: usize| -> Result<f64, RuntimeError> {
            let mut source = MappedTable::new(bytes, row_bytes, threads).map_err(failed)?;
            let id = |at: usize| (mix((repeat * gathered + at) as u64) % rows as u64) as i64;
            let ids: Vec<i64> = (0..gathered).map(id).collect();
            let began = Instant::now();
            source.fill(&ids, HostPlace::new(out.bytes_mut())).map_err(failed)?;
            Ok((gathered * row_bytes) as f64 / began.elapsed().as_secs_f64().max(f64::MIN_POSITIVE))
        };
        let (mut mapped, mut huge) = (0.0_f64, 0.0_f64);
        for repeat in 0..REPEATS {
            mapped = mapped.max(rate(sample, repeat)?);
            huge = huge.max(rate(copied.bytes(), repeat)?);
        }
        Ok(Self { mapped, huge, copy })
    }
}
