//! `uvatrain import`: converts a graph in another format to a dataset.

use std::time::Instant;

use uva_io::import::{
    self, EdgeList, Float8, Ids, ImportEstimate, ImportOptions, ImportWatch, LabelTables, Literals, Scoped,
    TableColumns,
};

use uva_runtime::spec::ByteSize;

use crate::flags::data::{
    EdgeListFlags, EdgeListIds, ImportFlags, ImportedFeatures, LiteralsFlag, ThirdColumnFlag,
};
use crate::signals::ending::clean_up_on_signals;
use crate::ui::work::Work;
use crate::ui::{format, out, written};

/// Reads the graph, writes the dataset, and prints a summary and the time taken.
pub fn run(flags: &ImportFlags) -> anyhow::Result<()> {
    clean_up_on_signals()?;
    let options = ImportOptions {
        symmetrise: flags.symmetrise.clone(),
        deduplicate: flags.dedup.clone(),
        self_loops: flags.self_loops.clone(),
        name: flags.name.clone(),
        memory: flags.memory.bytes(),
        split: flags.split,
        seed: flags.seed,
        edge_list: edge_list(&flags.edge_list),
        tables: TableColumns { node_id: flags.tables.node_id.clone(), label: flags.tables.label.clone() },
        variant: flags.variant.clone(),
        reverse: flags.reverse.clone(),
        regression: flags.regression.clone(),
        float8: flags.feat_dtype.as_ref().map(|Scoped { value: ImportedFeatures::E4m3, only }| Scoped {
            value: Float8 { saturate: flags.saturate },
            only: only.clone(),
        }),
        literals: flags.literals.map(|choice| match choice {
            LiteralsFlag::Keep => Literals::Keep,
            LiteralsFlag::Drop => Literals::Drop,
        }),
        labels: LabelTables { file: flags.labels.clone(), columns: flags.label_columns.clone() },
        time: flags.time.clone(),
    };
    let start = Instant::now();
    let work = Work::new();
    let estimate = |estimate: &ImportEstimate| work.beside(|| out::say(&line(estimate)));
    let progress = |progress| work.show(progress);
    let note = |line: &str| work.beside(|| out::say(line));
    let watch = ImportWatch { estimate: &estimate, progress: &progress, note: &note };
    flags.from.run(&flags.source, &flags.out, &options, &watch)?;
    drop(work);
    written::say(&flags.out, start.elapsed())
}

fn edge_list(flags: &EdgeListFlags) -> EdgeList {
    EdgeList {
        ids: match flags.ids {
            None | Some(EdgeListIds::Number) => Ids::Number,
            Some(EdgeListIds::Name) => Ids::Name,
        },
        nodes: flags.nodes,
        skip_lines: flags.skip_lines,
        separator: flags.separator,
        quotes: flags.quotes,
        comments: flags.comments,
        third_column: flags.third_column.map(|column| match column {
            ThirdColumnFlag::Weight => import::ThirdColumn::Weight,
            ThirdColumnFlag::Ignore => import::ThirdColumn::Ignore,
        }),
        arrays: flags.arrays.clone(),
    }
}

/// `estimate: 2,449,029 nodes, up to 123,718,280 edges; 1.4 GiB on the disk; at most 4 GiB of memory for edges`
fn line(estimate: &ImportEstimate) -> String {
    let nodes = match estimate.nodes {
        Some(nodes) => format!("{} nodes", format::count(nodes)),
        None => "nodes still to be counted".to_owned(),
    };
    let edges = match estimate.edges {
        Some(edges) => format!("up to {} edges", format::count(edges)),
        None => "edges still to be counted".to_owned(),
    };
    let mut parts = vec![format!("{nodes}, {edges}")];
    if estimate.edges.is_some() {
        parts.push(format!("{} on the disk", ByteSize::from_bytes(estimate.disk)));
    }
    if estimate.temporary > 0 {
        parts.push(format!("{} more while it is made", ByteSize::from_bytes(estimate.temporary)));
    }
    parts.push(format!("at most {} of memory for edges", ByteSize::from_bytes(estimate.memory)));
    if let Some(seconds) = estimate.seconds {
        parts.push(format!("about {} to read it", format::seconds(seconds)));
    }
    format!("estimate: {}", parts.join("; "))
}
