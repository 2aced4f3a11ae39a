//! Validation of `hops.json`. A hop set may come from any source, so no value in it is used as a size, a row or a file
//! name before these checks.

use uva_model::TrainerOptions;

use crate::hop_sets::description::{HopSet, LABELS, NODE_IDS};
use crate::operator::Operator;
use crate::options::{MOST_HOPS, MOST_OPERATORS};
use crate::resumption::part::DATA_OFFSET;

/// An invalid key.
#[derive(Debug, thiserror::Error)]
#[error("{key} {problem}")]
pub(crate) struct WrongKey {
    key: String,
    problem: String,
}

/// Checks every key that is used later.
///
/// # Errors
/// About the first invalid key.
pub(crate) fn check(set: &HopSet) -> Result<(), WrongKey> {
    operators(set)?;
    require(set.dim > 0, "dim", || "is 0: a row has at least one feature".to_owned())?;
    let row = set.dim.checked_mul(set.hops()).and_then(|values| values.checked_mul(set.dtype.bytes()));
    let all = row.and_then(|bytes| bytes.checked_mul(set.rows.max(1)));
    require(all.is_some_and(|bytes| isize::try_from(bytes).is_ok()), "dim", || {
        format!("is {}: the features of all rows and hops are too large", set.dim)
    })?;
    require(set.data_offset == DATA_OFFSET, "data_offset", || {
        format!("is {}, but elements begin at byte {DATA_OFFSET}", set.data_offset)
    })?;
    require(set.classes <= TrainerOptions::MAX_WIDTH, "classes", || {
        format!("is {}, but at most {} are supported", set.classes, TrainerOptions::MAX_WIDTH)
    })?;
    splits(set)?;
    files(set)
}

fn operators(set: &HopSet) -> Result<(), WrongKey> {
    require((1..=MOST_OPERATORS).contains(&set.operators.len()), "operators", || {
        format!("has {} entries: expected 1 to {MOST_OPERATORS}", set.operators.len())
    })?;
    for (place, operator) in set.operators.iter().enumerate() {
        let key = |name: &str| format!("operators[{place}].{name}");
        let parsed: Operator =
            operator.name.parse().map_err(|problem: String| wrong(&key("name"), format!("is {problem}")))?;
        let stem = parsed.file_stem();
        require(operator.file == stem, &key("file"), || {
            format!("is {:?}, but files of {parsed} are named {stem:?}", operator.file)
        })?;
        require((1..=MOST_HOPS).contains(&operator.hops), &key("hops"), || {
            format!("is {}, not from 1 to {MOST_HOPS}", operator.hops)
        })?;
        let is_new = set.operators[..place].iter().all(|other| other.file != operator.file);
        require(is_new, &key("name"), || format!("is {parsed}, which is there twice"))?;
    }
    Ok(())
}

/// The three splits follow one another, from the first row.
fn splits(set: &HopSet) -> Result<(), WrongKey> {
    let mut behind = 0;
    for name in ["train", "valid", "test"] {
        let key = format!("splits.{name}");
        let Some(&[first, end]) = set.splits.get(name) else {
            return Err(wrong("splits", format!("has no {name}")));
        };
        require(first == behind && first <= end && end <= set.rows, &key, || {
            format!("is [{first}, {end}]: it has to begin at row {behind} and end within {} rows", set.rows)
        })?;
        behind = end;
    }
    require(set.splits.len() == 3, "splits", || "has others than train, valid and test".to_owned())
}

/// All arrays are named, and no other file: so no name points outside the hop set.
fn files(set: &HopSet) -> Result<(), WrongKey> {
    let mut names = set.hop_files();
    names.push(NODE_IDS.to_owned());
    if let Some(name) = names.iter().find(|name| !set.files.contains_key(*name)) {
        return Err(wrong("files", format!("has no {name}")));
    }
    names.push(LABELS.to_owned());
    match set.files.keys().find(|name| !names.contains(name)) {
        Some(name) => Err(wrong("files", format!("has {name:?}, which is not a file of this hop set"))),
        None => Ok(()),
    }
}

fn require(holds: bool, key: &str, problem: impl FnOnce() -> String) -> Result<(), WrongKey> {
    if holds { Ok(()) } else { Err(wrong(key, problem())) }
}

fn wrong(key: &str, problem: String) -> WrongKey {
    WrongKey { key: key.to_owned(), problem }
}
