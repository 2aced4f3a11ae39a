//! Descriptions and checks of options in Python, from their declarations.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use uva_runtime::LoaderOptions;
use uva_runtime::spec::{Field, Options, Spelling, ValueKind};
use uva_runtime::tune::planning::CacheOptions;

use crate::options::keywords::{DEFAULTS, of_text, takes_numbers};
use crate::options::ranks::{PlaceOptions, RankOptions};

/// The caches that a loader makes on its own.
const OWN_CACHES: [&str; 3] = ["host_cache", "gpu_cache", "cache_policy"];

/// Options whose values have a text, and may be of any type: a `torch.device`.
const ANY: [&str; 1] = ["device"];

/// The section of help that lists what `backend=` groups.
const PIPELINE: &str = "Pipeline";

/// The loader's options: for each its name, the keyword that also sets it (None: no other), its type as an annotation, its
/// default, the value used for `None` if that is the default, its help and the names that it accepts.
#[pyfunction]
pub fn _loader_options(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let keyword = Spelling::Keyword;
    let mut found = Vec::new();
    for field in LoaderOptions::declared() {
        let group = (field.group == PIPELINE).then_some("backend");
        found.push(described::<LoaderOptions>(py, field, &DEFAULTS, group, keyword)?);
    }
    for field in PlaceOptions::declared() {
        found.push(described::<PlaceOptions>(py, field, &[], Some("backend"), keyword)?);
    }
    for field in CacheOptions::declared().filter(|field| OWN_CACHES.contains(&field.name)) {
        found.push(described::<CacheOptions>(py, field, &[], Some("cache"), keyword)?);
    }
    for field in RankOptions::declared() {
        found.push(described::<RankOptions>(py, field, &[], Some("ranks"), keyword)?);
    }
    Ok(found)
}

/// An option, with the default among `defaults` instead of the struct's.
pub fn described<'py, O: Options>(
    py: Python<'py>,
    field: &Field,
    defaults: &[(&str, &str)],
    group: Option<&str>,
    spelling: Spelling,
) -> PyResult<Bound<'py, PyDict>> {
    let own = defaults.iter().find(|(name, _)| *name == field.name).map(|(_, text)| (*text).to_owned());
    let default = match field.unless_given {
        Some(_) => String::new(),
        None => own.unwrap_or_else(|| O::default().text(field)),
    };
    let annotation = match field.kind {
        _ if ANY.contains(&field.name) && group.is_some() => "Any",
        ValueKind::Switch => "bool",
        ValueKind::Whole(_) => "int",
        ValueKind::Real(_) => "float",
        ValueKind::Text { .. } if takes_numbers::<O>(field) => "int | str",
        ValueKind::Choice(_) | ValueKind::Path | ValueKind::Text { .. } => "str",
        ValueKind::Size => "int | str",
        ValueKind::Fanouts { .. } => "Sequence[int] | Mapping[Any, Sequence[int]]",
        ValueKind::Internal => "Any",
    };
    let choices = match field.kind {
        ValueKind::Choice(choices) => choices(),
        _ => Vec::new(),
    };
    let choices: Vec<_> =
        choices.into_iter().map(|choice| (choice.name, spelling.sentence(choice.help))).collect();
    let described = PyDict::new(py);
    described.set_item("name", field.name)?;
    described.set_item("group", group)?;
    described.set_item("value", field.value)?;
    described.set_item("annotation", annotation)?;
    described.set_item("default", of_text(py, field, &default)?)?;
    described.set_item("unless_given", field.unless_given.map(|said| spelling.sentence(said)))?;
    described.set_item("help", spelling.sentence(field.about()))?;
    described.set_item("choices", choices)?;
    Ok(described)
}
