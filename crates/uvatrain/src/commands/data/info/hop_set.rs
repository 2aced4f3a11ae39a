//! The contents of a hop set.

use std::path::Path;

use serde::Serialize;
use uva_propagate::HopSet;
use uva_runtime::spec::ByteSize;

use crate::flags::data::InfoFlags;
use crate::ui::table::TextTable;
use crate::ui::{format, out};

/// The contents of `hops.json`, and values derived from it.
#[derive(Serialize)]
struct Facts<'a> {
    kind: &'static str,
    path: String,
    bytes: u64,
    hops: usize,
    /// The hop set's fingerprint, which checkpoints name. The dataset's is in `dataset`.
    fingerprint: String,
    /// Whether every hash and value was checked, and not only lengths and shapes.
    verified: bool,
    #[serde(flatten)]
    set: &'a HopSet,
}

/// Opens the hop set, checks it, and prints its contents. `None` if there is none, or if parts are to be compared with
/// their source.
pub fn run(flags: &InfoFlags) -> Option<anyhow::Result<()>> {
    let is_shown = HopSet::is_at(&flags.data) && flags.source.is_none();
    is_shown.then(|| show(&flags.data, flags.verify, flags.json))
}

fn show(path: &Path, verify: bool, json: bool) -> anyhow::Result<()> {
    let set = HopSet::open(path)?;
    if verify {
        set.verify(path)?;
    }
    if json {
        return out::json(&Facts {
            kind: "hop_set",
            path: path.display().to_string(),
            bytes: set.bytes(),
            hops: set.hops(),
            fingerprint: set.fingerprint(),
            verified: verify,
            set: &set,
        });
    }
    out::text(&table(path, &set, verify))
}

fn table(path: &Path, set: &HopSet, verified: bool) -> String {
    let mut table = TextTable::of_facts();
    let mut fact = |name: &str, value: String| table.row(&[name.to_owned(), value]);
    let count = |n: usize| format::count(n as u64);
    fact("hop set", format!("{} ({})", set.dataset.name, path.display()));
    for operator in &set.operators {
        let weights = if operator.weighted { ", by weight.npy" } else { "" };
        fact("operator", format!("{}, {} hops{weights}", operator.name, operator.hops));
    }
    fact("rows", format!("{} of {} hops, nodes: {}", count(set.rows), set.hops(), set.nodes));
    fact("features", format!("{} × {}, normalised: {}", set.dim, set.dtype, set.feature_norm));
    fact("layout", format!("{}: {}", set.layout, set.hop_files().join(", ")));
    for split in ["train", "valid", "test"] {
        let [first, end] = set.split(split);
        fact(split, format!("rows {} to {}: {}", count(first), count(end), count(end - first)));
    }
    let drawn = if set.order.seed != 0 { format!(", seed {}", set.order.seed) } else { String::new() };
    fact("order of training rows", format!("{}{drawn}", set.order.kind));
    fact("classes", count(set.classes));
    fact("on disk", ByteSize::from_bytes(set.bytes()).to_string());
    fact("fingerprint", set.fingerprint());
    fact("dataset", format!("fingerprint {}", set.dataset.fingerprint));
    fact("made by", format!("{}, in {}", set.made_by, format::seconds(set.seconds)));
    let checked = match verified {
        true => "everything: hashes of all files, and that values are finite",
        false => "lengths, types and shapes; hashes and values: info --verify",
    };
    fact("checked", checked.to_owned());
    table.render()
}
