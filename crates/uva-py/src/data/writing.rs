//! A dataset written from arrays: types and shapes are checked before, all other properties after the arrays are
//! written, and the dataset appears only if both checks succeed.

use std::io;
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyFileExistsError, PyValueError};
use pyo3::prelude::*;
use uva_files::staging::StagedDirectory;
use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::{DATASET, ElementType, GraphError, Meta, Verify};
use uva_launch::output_paths;

use crate::arrays::input::{ElementKind, Input};
use crate::data::dataset::open;
use crate::errors::{of_graph, of_launched};

/// The permitted types of features.
const FEATURE_KINDS: [(ElementKind, NpyType); 6] = [
    (ElementKind::F32, NpyType::F32),
    (ElementKind::F16, NpyType::F16),
    // `.npy` has no names for these; meta.json has the type.
    (ElementKind::Bf16, NpyType::U16),
    (ElementKind::E4m3, NpyType::U8),
    (ElementKind::U8, NpyType::U8),
    (ElementKind::I8, NpyType::I8),
];

const LABELS: &str = "label.npy";

/// Elements per write for arrays that are converted.
const PIECE: usize = 1 << 12;

/// How one array is written.
#[derive(Clone, Copy)]
pub(super) enum As {
    /// Unchanged.
    Bytes(NpyType),
    /// Widened to 64 bits.
    Wide,
    /// From float64 to float32.
    Narrow,
    /// From integers that were checked to uint16.
    Types,
}

/// An array that is being written to its file.
struct File {
    input: Input,
    name: &'static str,
    how: As,
}

/// Refuses an output that would replace one of `reads`, or a file of a dataset, hop set, partition or checkpoint.
/// `option` names it in the message.
#[pyfunction]
pub fn _check_output(option: &str, path: PathBuf, reads: Vec<PathBuf>) -> PyResult<()> {
    let reads: Vec<Option<&Path>> = reads.iter().map(|read| Some(read.as_path())).collect();
    output_paths::check(&[(option, Some(&path))], &reads).map_err(of_launched)
}

/// Writes a dataset to the directory `path`. `arrays` maps the names of arguments to arrays; `meta` is meta.json. Before
/// anything is written, `warn` is called with each conversion of an array.
#[pyfunction]
pub fn write_dataset(
    py: Python<'_>,
    path: PathBuf,
    arrays: Vec<(String, Bound<'_, PyAny>)>,
    meta: &str,
    overwrite: bool,
    warn: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let mut inputs =
        arrays.iter().map(|(name, array)| Input::new(name, array)).collect::<PyResult<Vec<Input>>>()?;
    let mut meta: Meta = serde_json::from_str(meta)
        .map_err(|error| PyValueError::new_err(format!("the content of meta.json: {error}")))?;
    let mut take = |name: &str| {
        let found = inputs.iter().position(|input| input.name == name);
        found.map(|position| inputs.swap_remove(position))
    };
    let files = checked(&mut take, &mut meta)?;
    if !overwrite && path.symlink_metadata().is_ok() {
        let message = format!("{}: it already exists; overwrite=True replaces it", path.display());
        return Err(PyFileExistsError::new_err(message));
    }
    for File { input, how, .. } in &files {
        if matches!(how, As::Narrow) {
            let (name, found) = (&input.name, input.describe());
            warn.call1((format!("{name} is {found}: float64 becomes float32"),))?;
        }
    }
    py.detach(|| write(&path, &files, &meta, overwrite))
}

/// The file type of each array, or the reason why it cannot be written.
fn checked(take: &mut dyn FnMut(&str) -> Option<Input>, meta: &mut Meta) -> PyResult<Vec<File>> {
    let required = |input: Option<Input>, name: &str| {
        input.ok_or_else(|| PyValueError::new_err(format!("{name} is missing: a dataset requires it")))
    };
    let refuse = |input: &Input, wanted: String| {
        Err(PyValueError::new_err(format!("{} is {}, but must be {wanted}", input.name, input.describe())))
    };
    let indptr = required(take("indptr"), "indptr")?;
    if !indptr.is_integer() || indptr.shape.len() != 1 || indptr.shape[0] == 0 {
        return refuse(&indptr, "int64 [nodes + 1]".into());
    }
    let nodes = indptr.shape[0] - 1;
    let indices = required(take("indices"), "indices")?;
    if !indices.is_integer() || indices.shape.len() != 1 {
        return refuse(&indices, "int32 or int64 [edges]".into());
    }
    let edges = indices.shape[0];

    let features = required(take("features"), "features")?;
    let Some(features_as) = rows_of_features(&features, nodes) else {
        return refuse(
            &features,
            format!(
                "float32, float16, bfloat16, float8_e4m3fn, uint8 or int8 [{nodes}, features], one row per node of indptr"
            ),
        );
    };
    match (&meta.feat_dtype, unnamed(features.kind)) {
        (_, Some(element)) => meta.feat_dtype = Some(element.name().into()),
        // bfloat16 is stored as uint16, and float8 as uint8.
        (Some(said), None) => match ElementType::from_name(said) {
            Some(ElementType::Bf16) => {
                return refuse(&features, format!("bfloat16, as feat_dtype={said:?} says"));
            }
            Some(ElementType::E4m3) => {
                return refuse(&features, format!("float8_e4m3fn, as feat_dtype={said:?} says"));
            }
            _ => {}
        },
        (None, None) => {}
    }

    let indices_as = if indices.kind == ElementKind::I32 { As::Bytes(NpyType::I32) } else { As::Wide };
    let mut files = vec![
        File { input: indptr, name: "indptr.npy", how: As::Wide },
        File { input: indices, name: "indices.npy", how: indices_as },
        File { input: features, name: "feat.npy", how: features_as },
    ];
    if let Some(labels) = take("labels") {
        let Some(how) = rows_of_labels(&labels, nodes) else { return refuse(&labels, labels_wanted(nodes)) };
        files.push(File { input: labels, name: LABELS, how });
    }
    for (argument, name) in
        [("train_idx", "train_idx.npy"), ("valid_idx", "valid_idx.npy"), ("test_idx", "test_idx.npy")]
    {
        let input = required(take(argument), argument)?;
        if !input.is_integer() || input.shape.len() != 1 {
            let hint = if input.kind == ElementKind::Bool { " (of a mask: mask.nonzero())" } else { "" };
            return refuse(&input, format!("int64 [any length], node ids{hint}"));
        }
        files.push(File { input, name, how: As::Wide });
    }
    if let Some(input) = take("weight") {
        let how = match input.kind {
            ElementKind::F32 => As::Bytes(NpyType::F32),
            ElementKind::F64 => As::Narrow,
            _ => return refuse(&input, weights_wanted(edges)),
        };
        if input.shape != [edges] {
            return refuse(&input, weights_wanted(edges));
        }
        files.push(File { input, name: "weight.npy", how });
    }
    if let Some(input) = take("edge_attr") {
        let Some(how) = rows_of_features(&input, edges) else {
            let wanted = "float32, float16, bfloat16, float8_e4m3fn, uint8 or int8";
            return refuse(&input, format!("{wanted} [{edges}, features], a row for each entry of indices"));
        };
        if let Some(element) = unnamed(input.kind) {
            meta.edge_feat_dtype = Some(element.name().into());
        }
        files.push(File { input, name: "edge_feat.npy", how });
    }
    if let Some(input) = take("edge_type") {
        if !input.is_integer() || input.shape != [edges] {
            return refuse(&input, format!("integers [{edges}], a type for each entry of indices"));
        }
        check_types(&input)?;
        files.push(File { input, name: "edge_type.npy", how: As::Types });
    }
    if let Some(input) = take("orig_id") {
        if !input.is_integer() || input.shape != [nodes] {
            return refuse(&input, format!("int64 [{nodes}], an id for each node of indptr"));
        }
        files.push(File { input, name: "orig_id.npy", how: As::Wide });
    }
    Ok(files)
}

/// How labels of this many nodes are written; `None` if they are none.
pub(super) fn rows_of_labels(labels: &Input, nodes: usize) -> Option<As> {
    Some(match (labels.shape.as_slice(), labels.kind) {
        ([rows], _) if *rows == nodes && labels.is_integer() => As::Wide,
        // True and false are the bytes 1 and 0.
        ([rows, classes], ElementKind::U8 | ElementKind::Bool) if *rows == nodes && *classes > 0 => {
            As::Bytes(NpyType::U8)
        }
        ([rows] | [rows, _], ElementKind::F32 | ElementKind::F64)
            if *rows == nodes && labels.shape.get(1) != Some(&0) =>
        {
            if labels.kind == ElementKind::F32 {
                As::Bytes(NpyType::F32)
            } else {
                As::Narrow
            }
        }
        _ => return None,
    })
}

pub(super) fn labels_wanted(nodes: usize) -> String {
    format!(
        "int64 [{nodes}], one class per node (-1: none), or uint8 [{nodes}, classes], zeros and ones, or float32 \
         [{nodes}] or [{nodes}, targets], for regression"
    )
}

/// The feature type that meta.json must name, if `.npy` has no name for it.
pub(super) fn unnamed(kind: ElementKind) -> Option<ElementType> {
    match kind {
        ElementKind::Bf16 => Some(ElementType::Bf16),
        ElementKind::E4m3 => Some(ElementType::E4m3),
        _ => None,
    }
}

/// How a table of features with this many rows is written; `None` if it is none.
pub(super) fn rows_of_features(input: &Input, rows: usize) -> Option<As> {
    if input.shape.len() != 2 || input.shape[0] != rows || input.shape[1] == 0 {
        return None;
    }
    if input.kind == ElementKind::F64 {
        return Some(As::Narrow);
    }
    let known = FEATURE_KINDS.iter().find(|(kind, _)| *kind == input.kind);
    known.map(|(_, written)| As::Bytes(*written))
}

/// Checks that edge types fit their file.
pub(super) fn check_types(input: &Input) -> PyResult<()> {
    let mut before = 0;
    let checked = input.widened(|values| {
        if let Some(at) = values.iter().position(|&value| u16::try_from(value).is_err()) {
            let (name, entry, value) = (&input.name, before + at, values[at]);
            return Err(PyValueError::new_err(format!(
                "{name}: entry {entry} is {value}, it has to be 0 to {}",
                u16::MAX
            )));
        }
        before += values.len();
        Ok(())
    });
    checked.unwrap_or(Ok(()))
}

fn weights_wanted(edges: usize) -> String {
    format!("float32 [{edges}], a weight for each entry of indices")
}

fn write(path: &Path, files: &[File], meta: &Meta, overwrite: bool) -> PyResult<()> {
    let staged = if overwrite {
        StagedDirectory::replacing(path, &DATASET)
    } else {
        StagedDirectory::new(path, &DATASET)
    };
    let staged = staged.map_err(GraphError::from).map_err(of_graph)?;
    let written = || -> PyResult<()> {
        for file in files {
            write_array(&staged.path().join(file.name), &file.input, file.how).map_err(of_graph)?;
        }
        if *meta != Meta::default() {
            meta.write(staged.path()).map_err(of_graph)?;
        }
        // As in `uvatrain info --verify`, before the directory is renamed.
        open(staged.path(), Verify::FullWithFeatures).map(drop)
    };
    written().map_err(|error| about(error, staged.path(), path))?;
    staged.commit().map_err(GraphError::from).map_err(of_graph)
}

/// The same error with the final names of files in `out`, instead of `staged`.
pub(super) fn about(error: PyErr, staged: &Path, out: &Path) -> PyErr {
    Python::attach(|py| {
        if error.is_instance_of::<PyValueError>(py) {
            let message = error.value(py).to_string();
            PyValueError::new_err(message.replace(&staged.display().to_string(), &out.display().to_string()))
        } else {
            error
        }
    })
}

fn no_integers(path: &Path) -> GraphError {
    let source = io::Error::new(io::ErrorKind::InvalidData, "its elements are not integers");
    GraphError::Io { path: path.to_owned(), action: "write", source }
}

/// Writes an array to the file at `path`.
pub(super) fn write_array(path: &Path, input: &Input, how: As) -> Result<(), GraphError> {
    let row_shape = &input.shape[1..];
    match how {
        As::Bytes(kind) => {
            let mut writer = NpyWriter::create(path, kind, row_shape)?;
            writer.write_bytes(input.bytes())?;
            writer.finish()?;
        }
        As::Wide => {
            let mut writer = NpyWriter::create(path, NpyType::I64, row_shape)?;
            let written = input.widened(|values| writer.write(values));
            written.unwrap_or_else(|| Err(no_integers(path)))?;
            writer.finish()?;
        }
        As::Types => {
            let mut writer = NpyWriter::create(path, NpyType::U16, row_shape)?;
            let written = input.widened(|values| {
                let types: Vec<u16> = values.iter().map(|&value| value as u16).collect();
                writer.write(&types)
            });
            written.unwrap_or_else(|| Err(no_integers(path)))?;
            writer.finish()?;
        }
        As::Narrow => {
            let mut writer = NpyWriter::create(path, NpyType::F32, row_shape)?;
            let mut piece = Vec::with_capacity(PIECE);
            // In Python's arrays a float64 is aligned; `Input` has checked it.
            for values in bytemuck::cast_slice::<u8, f64>(input.bytes()).chunks(PIECE) {
                piece.clear();
                piece.extend(values.iter().map(|&value| value as f32));
                writer.write(&piece)?;
            }
            writer.finish()?;
        }
    }
    Ok(())
}
