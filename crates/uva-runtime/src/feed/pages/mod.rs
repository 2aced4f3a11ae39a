//! The choice of pages for files that CPU threads read in random order: those of the mapped file, or 2 MiB pages.

mod place;
mod rates;
mod reads;

use uva_cuda::memory::HostMemory;
use uva_graph::Dataset;
use uva_mem::MappedFile;
use uva_options::OptionError;

use self::reads::RandomReads;
use crate::RuntimeError;
use crate::backend::Backend;
use crate::options::reader::HostPages;
use crate::plan::RunPlan;
use crate::plan::page_choice::{FilePages, PageChoice, PageMethod, Rates};

/// A smaller file is read where it is: its page tables fit into the processor's caches.
const SMALL_FILE_BYTES: u64 = 32 << 20;

/// A file with at least this fraction on 2 MiB pages is read where it is.
const MOSTLY_HUGE: f64 = 0.9;

/// Bytes that are read of a file on disk, to see which pages it is read onto.
const FIRST_BYTES: usize = 16 << 20;

/// The saved time must be at least this multiple of the cost.
const WORTHWHILE: f64 = 2.0;

impl RunPlan {
    /// Settles where a run on this backend reads rows and neighbour lists, if it is not settled: rows from memory or
    /// disk, by which reader, and files in memory from which pages. For the process that plans a run, which passes the
    /// result to the others.
    ///
    /// # Errors
    /// See [`FeatureChoice::new`](crate::FeatureChoice::new). [`RuntimeError::Option`] if 2 MiB pages are requested and
    /// CPU threads read neither rows nor lists from memory.
    pub fn with_row_places(self, dataset: &Dataset, backend: &Backend) -> Result<Self, RuntimeError> {
        let mut plan = self.with_features(dataset, backend)?;
        if plan.pages.is_none() {
            let choice = PageChoice::of_plan(&plan.clone().on(backend.clone()), dataset)?;
            plan.options.copied_files = choice.copied();
            plan.pages = Some(choice);
        }
        Ok(plan)
    }

    /// Places files on 2 MiB pages as chosen, except those that roles copy. For the process that planned the run,
    /// before the roles start. Does nothing the second time.
    #[must_use]
    pub fn with_pages_placed(mut self, dataset: &Dataset) -> Self {
        if let Some(choice) = &mut self.pages {
            choice.place(dataset);
        }
        self
    }
}

impl PageChoice {
    /// Resolves the option of this plan, whose rows come from memory or from disk already. Measures if the option is
    /// open and a file is on small pages.
    fn of_plan(plan: &RunPlan, dataset: &Dataset) -> Result<Self, RuntimeError> {
        let requested = plan.options.host_pages;
        let reads = RandomReads::of(plan, dataset);
        if requested == HostPages::Huge && reads.is_empty() {
            let reason = "requires CPU threads that read rows or neighbour lists from memory in random order, which this \
                          run does not have";
            return Err(OptionError::new("host_pages", requested, reason).into());
        }
        let mut available = HostMemory::read().ok().map(|memory| memory.tightest_limit());
        let mut files = Vec::new();
        for reads in reads {
            files.push(decide(&reads, plan, available.as_mut())?);
        }
        Ok(Self { files })
    }
}

/// The pages of one file. `available` is the memory that files before it have left, and the limit's name.
fn decide(
    reads: &RandomReads<'_>,
    plan: &RunPlan,
    available: Option<&mut (u64, String)>,
) -> Result<FilePages, RuntimeError> {
    let file = reads.random.file;
    let mut pages = FilePages {
        file: reads.random.name(),
        values: reads.random.values,
        method: PageMethod::Mapped,
        reason: "requested".to_owned(),
        huge_share: None,
        rates: None,
        saved_and_cost: None,
        placed_share: None,
    };
    let is_open = match plan.options.host_pages {
        HostPages::Mapped => return Ok(pages),
        HostPages::Huge => false,
        HostPages::Auto => true,
    };
    let mapped = |pages: FilePages, reason: String| Ok(FilePages { reason, ..pages });
    let (bytes, gib) = (file.bytes().len() as u64, |bytes: u64| bytes as f64 / (1_u64 << 30) as f64);
    if is_open && bytes < SMALL_FILE_BYTES {
        return mapped(pages, format!("the file has less than {} MiB", SMALL_FILE_BYTES >> 20));
    }
    if plan.options.part.index > 0 {
        return mapped(pages, "the first rank chooses the pages of files".to_owned());
    }
    pages.huge_share = found_share(file);
    if let Some(share) = pages.huge_share.filter(|&share| share >= MOSTLY_HUGE) {
        return mapped(pages, format!("{:.0} % of the file is on 2 MiB pages", 100.0 * share));
    }
    let Some((left, bound)) = available else {
        return mapped(pages, "the available memory is not known".to_owned());
    };
    if bytes > *left {
        let (bytes, left) = (gib(bytes), gib(*left));
        return mapped(
            pages,
            format!("{bytes:.2} GiB do not fit into the {left:.2} GiB available of {bound}"),
        );
    }
    let rates = if is_open { Some(Rates::measure(reads)?) } else { None };
    pages.rates = rates;
    // The seconds that the run saves, and a sentence about a method that takes `cost` seconds.
    let saved = rates.map(|Rates { mapped, huge, .. }| reads.bytes as f64 * (1.0 / mapped - 1.0 / huge));
    let pays = |cost: f64| saved.is_none_or(|saved| saved >= WORTHWHILE * cost);
    let sentence = |what: &str, cost: f64| match (rates, saved) {
        (Some(Rates { mapped, huge, .. }), Some(saved)) => format!(
            "reads come at {:.1} GB/s in place of {:.1} GB/s, which saves about {saved:.1} s, and {what} takes about {cost:.1} s",
            huge / 1e9,
            mapped / 1e9,
        ),
        _ => "requested".to_owned(),
    };
    if !pays(0.0) {
        return mapped(
            pages,
            sentence("a copy", bytes as f64 / rates.map_or(f64::INFINITY, |rates| rates.copy)),
        );
    }
    let in_place =
        [(PageMethod::Collapse, "moving the pages"), (PageMethod::ReadAgain, "reading the file again")];
    for (method, what) in in_place {
        let Some(rate) = method.tried(file) else { continue };
        let cost = bytes as f64 / rate;
        if pays(cost) {
            *left -= bytes;
            let saved_and_cost = saved.map(|saved| (saved, cost));
            return Ok(FilePages { method, reason: sentence(what, cost), saved_and_cost, ..pages });
        }
    }
    let copies = reads.copies.saturating_mul(bytes);
    if reads.copies == 0 || plan.options.part.of > 1 {
        return mapped(pages, "its pages can neither be moved nor read again in a time that pays".to_owned());
    }
    // The file stays in memory as well.
    let needed = copies.saturating_add(bytes);
    if needed > *left {
        let (copies, left) = (gib(copies), gib(*left));
        return mapped(
            pages,
            format!(
                "{copies:.2} GiB of copies next to the file do not fit into the {left:.2} GiB available of {bound}"
            ),
        );
    }
    let cost = rates.map_or(0.0, |rates| copies as f64 / rates.copy);
    let reason = sentence("a copy", cost);
    if !pays(cost) {
        return mapped(pages, reason);
    }
    *left -= needed;
    let saved_and_cost = saved.map(|saved| (saved, cost));
    Ok(FilePages { method: PageMethod::Copy, reason, saved_and_cost, ..pages })
}

/// The fraction of the file's pages in memory that are 2 MiB pages. If most of it is on disk, that of its first pages,
/// which are read for this.
fn found_share(file: &MappedFile) -> Option<f64> {
    match file.in_memory() {
        Ok(found) if found.share < 0.5 => file.huge_share_of(0..FIRST_BYTES).ok().flatten(),
        Ok(found) => found.huge_share,
        Err(_) => None,
    }
}
