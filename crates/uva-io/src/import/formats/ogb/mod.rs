//! Node property prediction datasets of the Open Graph Benchmark, as its package unpacks them (Hu et al. 2020).
//!
//! | file | what |
//! |---|---|
//! | `raw/edge.csv.gz`, `raw/node-feat.csv.gz`, `raw/node-label.csv.gz` | rows of numbers without a header, see [`csv`] |
//! | `raw/num-node-list.csv.gz`, `raw/num-edge-list.csv.gz` | the numbers of nodes and edges; one graph |
//! | `raw/data.npz`, `raw/node-label.npz` | instead of those, for papers100M, see [`npz`] |
//! | `split/SCHEME/train.csv.gz`, `valid.csv.gz`, `test.csv.gz` | node ids, a line each |
//!
//! Typed graphs, such as ogbn-mag, have other files ([`typed`]).
//!
//! OGB's own datasets are known by name, including whether their files hold one direction of each edge. For others, the
//! options must specify it.

mod archives;
mod csv;
mod npz;
mod raw;
mod splits;
mod typed;
mod values;

use serde_json::{Map, json};
use uva_graph::csc::Changes;
use uva_graph::{GraphError, Meta, Split};

use self::raw::Raw;
use self::splits::{scheme, split_ids};
use crate::import::importer::{Importer, SourceKind};
use crate::import::options::Extra;
use crate::import::request::ImportRequest;
use crate::import::writing::output::DatasetOutput;

/// OGB's datasets with one type of node and of edge, and whether ogb adds their reverse edges.
const ADDS_INVERSE: [(&str, bool); 4] =
    [("ogbn-arxiv", false), ("ogbn-products", true), ("ogbn-proteins", true), ("ogbn-papers100M", false)];

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "ogb",
    help: "A dataset unpacked by the Open Graph Benchmark's package: the directory with raw and split",
    source: SourceKind::Directory("the directory that OGB's package unpacks, with raw and split in it"),
    takes: &[Extra::Variant, Extra::Reverse, Extra::Time],
    import,
};

/// Imports one dataset. The source is its directory, the one with `raw` and `split`.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    if [typed::RELATIONS, archives::EDGES].iter().any(|file| request.file(file).exists()) {
        return typed::import(request);
    }
    let directory = request.source.file_name().map(|name| name.to_string_lossy().replace('_', "-"));
    let known = ADDS_INVERSE.iter().find(|(name, _)| Some(*name) == directory.as_deref());
    let symmetrise = match (request.options.symmetrise.as_ref(), known) {
        (Some(said), _) => said.value,
        (None, Some((_, adds))) => *adds,
        (None, None) => {
            let names = ADDS_INVERSE.map(|(name, _)| name.replace('-', "_")).join(", ");
            let message = format!(
                "the name of {} is not one of {names}: give `symmetrise`=true or `symmetrise`=false to add the reverse \
                 of each edge or not",
                request.source.display()
            );
            return Err(GraphError::usage("symmetrise", message));
        }
    };
    let changes = Changes { symmetrise, ..request.options.changes(Changes::NONE) };
    let raw: Box<dyn Raw> = if request.file("raw/data.npz").exists() {
        Box::new(npz::Npz::open(request)?)
    } else {
        Box::new(csv::Csv::open(request)?)
    };
    let sizes = raw.sizes()?;
    let nodes = sizes.nodes.unwrap_or(0);
    let (scheme, splits) = splits(request, nodes)?;

    let output = DatasetOutput::begin(request, sizes, changes)?;
    let element = raw.write(request, &output)?;
    output.splits(&splits)?;
    output.finish(Meta {
        name: request.name(known.map(|(name, _)| (*name).to_owned())),
        feat_dtype: Some(element.name().to_owned()),
        other: Map::from_iter([("source".to_owned(), json!("ogb")), ("split".to_owned(), json!(scheme))]),
        ..Meta::default()
    })
}

/// The splits and the name of their scheme.
fn splits(request: &ImportRequest<'_>, nodes: u64) -> Result<(String, [Vec<i64>; 3]), GraphError> {
    if request.options.split.is_some() && !request.file("split").exists() {
        return Ok((String::new(), [const { Vec::new() }; 3]));
    }
    let (name, directory) = scheme(request)?;
    let read = |split: Split| split_ids(&directory.join(format!("{}.csv.gz", split.name())), nodes);
    Ok((name, [read(Split::Train)?, read(Split::Valid)?, read(Split::Test)?]))
}
