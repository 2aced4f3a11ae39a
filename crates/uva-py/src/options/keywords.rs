//! The loader's options as Python's keywords, made from their declarations ([`uva_runtime::spec`]).

use std::path::PathBuf;
use std::str::FromStr;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};
use uva_graph::Split;
use uva_runtime::spec::{ByteSize, Field, OptionError, OptionValue, Options, PartialOptions, ValueKind};
use uva_runtime::tune::planning::CacheOptions;
use uva_runtime::{LoaderOptions, RuntimeError};
use uva_sample::{Fanouts, MAX_FANOUT, MAX_LAYERS, SamplerKind};

use crate::errors::{of_runtime, with};

/// Python defaults that differ from the command line's. A tensor of the last batch is often still bound when the next
/// one is requested: with two slots this would cost the overlap.
pub const DEFAULTS: [(&str, &str); 1] = [("slots", "3")];

/// The options of a loader: the keywords given, and defaults.
pub fn options_given(keywords: &Bound<'_, PyDict>) -> PyResult<LoaderOptions> {
    given(keywords, &DEFAULTS)
}

/// The caches of a loader: the keywords given, and defaults.
pub fn caches_given(keywords: &Bound<'_, PyDict>) -> PyResult<CacheOptions> {
    given(keywords, &[])
}

/// The options of a struct: the keywords given, these defaults, and the struct's.
fn given<O: Options>(keywords: &Bound<'_, PyDict>, defaults: &[(&str, &str)]) -> PyResult<O> {
    let refused = |error: OptionError| of_runtime(error.into());
    let mut given = PartialOptions::<O>::default();
    for (name, text) in defaults {
        given.give(name, text).map_err(refused)?;
    }
    for (name, value) in keywords {
        let name: String = name.extract()?;
        let Some(field) = O::field(&name) else {
            let unknown = given.give(&name, "").map_or_else(|error| error.to_string(), |()| String::new());
            return Err(with(PyTypeError::new_err(unknown), "field", Some(&name)));
        };
        if let Some(text) = text_of::<O>(field, &value)? {
            given.give(&name, &text).map_err(refused)?;
        }
    }
    let options = given.options();
    given.check_use(&options).map_err(refused)?;
    Ok(options)
}

/// A keyword's value as text; none for `None` if the default is not constant.
fn text_of<O: Options>(field: &Field, value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if value.is_none() && field.unless_given.is_some() {
        return Ok(None);
    }
    let wrong = |wanted: &str| {
        let found = value.get_type().name()?.to_string();
        Err(with(
            PyTypeError::new_err(format!("{} is {wanted}, not {found}", field.name)),
            "field",
            Some(field.name),
        ))
    };
    match field.kind {
        ValueKind::Switch => match value.extract::<bool>() {
            Ok(on) => Ok(Some(on.to_string())),
            Err(_) => wrong("True or False"),
        },
        ValueKind::Whole(_) => integer(field.name, value).map(Some),
        ValueKind::Size if value.is_instance_of::<PyString>() => value.extract().map(Some),
        ValueKind::Size => integer(field.name, value).map(Some),
        ValueKind::Fanouts { .. } => fanouts_as_text(field.name, value).map(Some),
        ValueKind::Real(_) => match value.extract::<f64>() {
            Ok(number) if !is_bool(value) => Ok(Some(number.to_string())),
            _ => wrong("a number"),
        },
        ValueKind::Path => {
            match value.extract::<PathBuf>().ok().and_then(|path| path.into_os_string().into_string().ok()) {
                Some(path) => Ok(Some(path)),
                None => wrong("a path of UTF-8 text"),
            }
        }
        ValueKind::Text { .. } if value.is_exact_instance_of::<PyInt>() && takes_numbers::<O>(field) => {
            integer(field.name, value).map(Some)
        }
        ValueKind::Choice(_) | ValueKind::Text { .. } => match value.extract::<String>() {
            Ok(name) => Ok(Some(name)),
            Err(_) => wrong("a str"),
        },
        ValueKind::Internal => Ok(None),
    }
}

/// Whether a number is one of the values of an option of text: of a count, say, that may also be `auto`.
pub fn takes_numbers<O: Options>(field: &Field) -> bool {
    PartialOptions::<O>::default().give(field.name, "1").is_ok()
}

/// Whether it is True or False, which Python takes for the integers 1 and 0; numpy's are meant too.
pub fn is_bool(value: &Bound<'_, PyAny>) -> bool {
    value.extract::<bool>().is_ok()
}

/// Fanouts as the command line has them: a sequence, or a dict of sequences by the names of relations or node types.
fn fanouts_as_text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(lists) = value.cast::<PyDict>() {
        let lists = lists.iter().map(|(of, list)| {
            let of: String = of.extract()?;
            Ok(format!("{of}={}", list_as_text(name, &list)?))
        });
        return Ok(lists.collect::<PyResult<Vec<_>>>()?.join(";"));
    }
    list_as_text(name, value)
}

fn list_as_text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let fanouts = value.try_iter()?.map(|fanout| integer(name, &fanout?)).collect::<PyResult<Vec<_>>>()?;
    Ok(fanouts.join(","))
}

/// The fanouts that are the argument `name`, of another function than the loader's.
pub fn fanouts(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Fanouts> {
    let text = fanouts_as_text(name, value)?;
    let refused = |reason: String| {
        let error = if text.is_empty() {
            OptionError::of(name, reason)
        } else {
            OptionError::new(name, &text, reason)
        };
        of_runtime(error.into())
    };
    let read = Field::fanouts(MAX_LAYERS, MAX_FANOUT).read(&text).map_err(refused)?;
    if read.contains('=') {
        return Err(refused("names of relations are not supported here: give one list".to_owned()));
    }
    Fanouts::of_text(&read).ok_or_else(|| of_runtime(RuntimeError::usage(read)))
}

/// A Python integer as text. It may have more bits than any type of ours.
fn integer(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    // Numpy warns where one of its bools is read as an integer.
    let number = if is_bool(value) { Err(PyTypeError::new_err(())) } else { value.extract::<i128>() };
    match number {
        Ok(number) => Ok(number.to_string()),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
            let reason = "an integer beyond 128 bits is too large";
            Err(of_runtime(OptionError::of(name, reason).into()))
        }
        Err(_) => {
            let found = value.get_type().name()?;
            let error = PyTypeError::new_err(format!("{name} is an integer, not {found}"));
            Err(with(error, "field", Some(name)))
        }
    }
}

/// A number that is not an option of the loader, within the type's range.
pub fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    let text = integer(name, value)?;
    let field = Field::at_least("", 0);
    let read =
        field.read(&text).map_err(|reason| of_runtime(OptionError::new(name, &text, reason).into()))?;
    read.parse().map_err(|_| of_runtime(RuntimeError::usage(text)))
}

/// Bytes that are not an option of the loader: a number, or a size such as `1GiB`.
pub fn size(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    let text: String =
        if value.is_instance_of::<PyString>() { value.extract()? } else { integer(name, value)? };
    let refused = |error: String| of_runtime(OptionError::new(name, &text, error).into());
    ByteSize::from_str(&text).map(ByteSize::bytes).map_err(|error| refused(error.to_string()))
}

/// An option's value as Python has it.
pub fn value_of<'py>(py: Python<'py>, field: &Field, options: &LoaderOptions) -> PyResult<Bound<'py, PyAny>> {
    of_text(py, field, &options.text(field))
}

/// The same of its text.
pub fn of_text<'py>(py: Python<'py>, field: &Field, text: &str) -> PyResult<Bound<'py, PyAny>> {
    if text.is_empty() {
        return Ok(py.None().into_bound(py));
    }
    match field.kind {
        ValueKind::Switch => (text == "true").into_bound_py_any(py),
        ValueKind::Whole(_) | ValueKind::Size => {
            text.parse::<u64>().unwrap_or_default().into_bound_py_any(py)
        }
        ValueKind::Fanouts { .. } => {
            let list = |text: &str| {
                PyTuple::new(
                    py,
                    text.split(',').filter_map(|fanout| fanout.parse::<i32>().ok()).collect::<Vec<_>>(),
                )
            };
            if !text.contains('=') {
                return Ok(list(text)?.into_any());
            }
            let lists = PyDict::new(py);
            for item in text.split(';') {
                let (name, of_name) = item.split_once('=').unwrap_or(("*", item));
                lists.set_item(name, list(of_name)?)?;
            }
            Ok(lists.into_any())
        }
        ValueKind::Real(_) => text.parse::<f64>().unwrap_or_default().into_bound_py_any(py),
        ValueKind::Choice(_) | ValueKind::Path | ValueKind::Text { .. } | ValueKind::Internal => {
            text.into_bound_py_any(py)
        }
    }
}

/// The split of this name.
pub fn split_named(name: &str) -> PyResult<Split> {
    Split::ALL
        .into_iter()
        .find(|split| split.name() == name)
        .ok_or_else(|| PyValueError::new_err(format!("split {name:?}: train, valid or test")))
}

/// The kind of sampler of this name.
pub fn kind_named(option: &str, name: &str) -> PyResult<SamplerKind> {
    SamplerKind::from_name(name)
        .ok_or_else(|| PyValueError::new_err(format!("{option} {name:?}: it is {}", kinds_named(|_| true))))
}

/// The kinds of sampler that fit, in quotes.
pub fn kinds_named(fits: impl Fn(SamplerKind) -> bool) -> String {
    let fitting = SamplerKind::ALL.into_iter().filter(|&kind| fits(kind));
    let names: Vec<_> = fitting.map(|kind| format!("{:?}", kind.name())).collect();
    names.join(" or ")
}
