//! The pinned feature tables of this process.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use uva_cuda::memory::{
    HostMemory, PinHow, PinOptions, PinPages, PinReport, PinRequest, PinWay, PinnedTable, PreflightPolicy,
    preflight,
};
use uva_cuda::{Context, CudaError};
use uva_graph::{Dataset, NodeType};
use uva_options::ByteSize;

use crate::RuntimeError;
use crate::feed::rows::FeatureBytes;

/// The tables pinned in this process, each with its key: the GPU, the dataset's folder and fingerprint, and the node type.
type PinnedKey = (usize, PathBuf, String, NodeType);
static PINNED: Mutex<Vec<(PinnedKey, Weak<PinnedTable>)>> = Mutex::new(Vec::new());

/// What needs less pinned memory than the tables of several node types, whose rows are not cached.
const FEWER_BYTES: &str =
    "halve the tables with `uvatrain import --feat-dtype f16`, gather on the CPU with `gather=cpu`";

/// The pinned feature tables of these node types, and the report about them. Loaders of several splits in one process
/// share the tables, each of which is unpinned with the last of them.
pub(super) fn pinned_once(
    context: &Arc<Context>,
    dataset: &Arc<Dataset>,
    types: &[NodeType],
    options: &PinOptions,
) -> Result<(Vec<Arc<PinnedTable>>, String), RuntimeError> {
    let path = dataset.path().canonicalize().unwrap_or_else(|_| dataset.path().to_owned());
    let (ordinal, fingerprint) = (context.device().ordinal(), dataset.fingerprint());
    let key = |of: NodeType| (ordinal, path.clone(), fingerprint.clone(), of);
    // Held while tables are pinned, so that a second caller finds them.
    let mut known = PINNED.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|(_, table)| table.strong_count() > 0);
    let find = |of: &NodeType| {
        let (_, table) = known.iter().find(|(found, _)| *found == key(*of))?;
        table.upgrade()
    };
    let found: Vec<Option<Arc<PinnedTable>>> = types.iter().map(find).collect();
    let missing = types.iter().zip(&found).filter(|(_, table)| table.is_none());
    let bytes = |of: NodeType| dataset.rows(of).map_or(0, |table| table.bytes.len() as u64);
    let missing: Vec<(&str, u64)> =
        missing.map(|(of, _)| (dataset.metagraph().type_name(*of), bytes(*of))).collect();
    let options = of_tables(dataset.is_homogeneous(), options);
    let options = &for_all(&missing, &options, HostMemory::read().ok())?;
    let (mut tables, mut how) = (Vec::with_capacity(types.len()), Vec::with_capacity(types.len()));
    for (of, found) in types.iter().zip(found) {
        let what = match dataset.metagraph().is_named() {
            true => format!("feature table of {}", dataset.metagraph().type_name(*of)),
            false => "feature table".to_owned(),
        };
        tables.push(match found {
            Some(table) => {
                how.push(format!("{what}: pinned already, by another loader of this process"));
                table
            }
            None => {
                let bytes = Arc::new(FeatureBytes(Arc::clone(dataset), *of));
                let table = Arc::new(PinnedTable::new(context, bytes, options)?);
                known.push((key(*of), Arc::downgrade(&table)));
                how.push(pinned(&what, table.report()));
                table
            }
        });
    }
    Ok((tables, how.join("; ")))
}

/// The options, with what needs less pinned memory than tables of one node type or of several.
fn of_tables(is_homogeneous: bool, options: &PinOptions) -> PinOptions {
    let remedies = if is_homogeneous { options.remedies } else { FEWER_BYTES };
    PinOptions { remedies, ..options.clone() }
}

/// The options to pin these tables, each with its name and bytes. Several are checked together: the memory that one of
/// them takes is not there for the next.
fn for_all(
    tables: &[(&str, u64)],
    options: &PinOptions,
    memory: Option<HostMemory>,
) -> Result<PinOptions, CudaError> {
    let (true, Some(memory)) = (tables.len() > 1, memory) else { return Ok(options.clone()) };
    let of_table = |(name, bytes): &(&str, u64)| format!("{name} {}", ByteSize::from_bytes(*bytes));
    let parts: Vec<String> = tables.iter().map(of_table).collect();
    let what = format!("{}, all together ({}),", options.what, parts.join(", "));
    let way = match options.pages {
        PinPages::InPlace => PinWay::InPlace,
        pages => PinWay::Copy { huge_pages: pages == PinPages::Hugetlb },
    };
    let bytes = tables.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let request = PinRequest { what: &what, bytes, way, remedies: options.remedies };
    let checked = preflight(&request, &memory, options.preflight)
        .map_err(|error| CudaError::Preflight(error.to_string()))?;
    if let Some(warning) = &checked.warning {
        (options.warn)(warning);
    }
    Ok(PinOptions { preflight: PreflightPolicy::Off, ..options.clone() })
}

/// The way in which the table was pinned, with its pages, as a line for people.
fn pinned(what: &str, report: &PinReport) -> String {
    let refused = report.refused.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let how = match report.how {
        PinHow::InPlaceReadOnly | PinHow::InPlace => "where it is mapped",
        PinHow::Copied => "in a copy",
        PinHow::Empty => "with nothing in it",
    };
    let pages = match (report.how, report.pages) {
        (PinHow::Empty, _) => String::new(),
        (_, None) => ", on pages of the page cache".to_owned(),
        (_, Some("hostalloc")) => ", on pages of the driver's".to_owned(),
        (_, Some(pages)) => format!(", {pages} pages"),
    };
    let given = report.huge_share.map(|share| format!(" ({:.0} % given)", share * 100.0)).unwrap_or_default();
    format!(
        "{what}: {:.2} GB pinned in {:.2} s {how}{refused}{pages}{given}",
        report.pinned_bytes as f64 * 1e-9,
        report.seconds
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_fit_one_by_one_and_not_together_are_reported_by_type() {
        const GIB: u64 = 1 << 30;
        let memory = |available| HostMemory {
            available,
            total: 64 * GIB,
            huge_pages: 0,
            lock_limit: None,
            may_lock_any: false,
            cgroups: Vec::new(),
        };
        let tables = [("paper", 3 * GIB), ("author", 2 * GIB)];
        let options = |preflight| {
            let what = "the tables".to_owned();
            PinOptions { what, preflight, ..of_tables(false, &PinOptions::default()) }
        };
        let refuse = options(PreflightPolicy::Refuse);
        let error = for_all(&tables, &refuse, Some(memory(4 * GIB))).unwrap_err().to_string();
        assert!(
            error.contains("the tables, all together (paper 3 GiB, author 2 GiB), may not fit"),
            "{error}"
        );
        // Caches are refused for typed graphs.
        assert!(
            error.contains("f16") && error.contains("`gather=cpu`") && !error.contains("gpu_cache"),
            "{error}"
        );
        let one_type = of_tables(true, &PinOptions::default());
        assert!(one_type.remedies.contains("`gpu_cache`"));
        let fits = for_all(&tables, &refuse, Some(memory(8 * GIB))).unwrap();
        assert_eq!(fits.preflight, PreflightPolicy::Off, "each was checked with the others");
        // One table is checked when it is pinned.
        let one = for_all(&tables[..1], &refuse, Some(memory(GIB))).unwrap();
        assert_eq!(one.preflight, PreflightPolicy::Refuse);
        let warned = for_all(&tables, &options(PreflightPolicy::Warn), Some(memory(4 * GIB)));
        assert!(warned.is_ok(), "it is tried anyway");
    }
}
