//! Writing of feature rows to `feat.npy`, with checks and conversion to a type that datasets support.
//!
//! Every importer writes its rows through [`FeatureWriter`], so that no importer accepts a value that `info --verify`
//! rejects.

use std::path::{Path, PathBuf};

use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::{ElementType, GraphError};

use super::values;
use crate::float8;
use crate::import::options::Float8;

#[derive(Debug, thiserror::Error)]
enum FeatureProblem {
    #[error("row {row}, column {column}, {at}is {value}: features have to be finite")]
    NotFinite { row: u64, column: u64, at: String, value: f64 },
    #[error("row {row}, column {column}, {at}is {value}, which float32 cannot hold")]
    TooLarge { row: u64, column: u64, at: String, value: f64 },
    #[error(
        "{count} of {of} features are beyond ±448, float8's largest, more than one in a thousand: scale the features \
         first, omit `feat_dtype`, or give `saturate` to clamp them to ±448"
    )]
    Saturated { count: u64, of: u64 },
}

/// The source of features, for messages.
#[derive(Debug, Clone)]
pub(crate) struct FeatureSource {
    /// The file, or archive and member.
    pub(crate) place: PathBuf,
    /// The offset of its values, if they are contiguous.
    pub(crate) data_offset: Option<u64>,
}

/// Writes rows in order.
#[derive(Debug)]
pub(crate) struct FeatureWriter {
    writer: NpyWriter,
    source: FeatureSource,
    columns: u64,
    /// The type of the values in the source, and in the file.
    kind: NpyType,
    element: ElementType,
    target: NpyType,
    /// Float8 instead of the source's type.
    float8: Option<Float8>,
    /// Number of written values.
    position: u64,
    /// The number of values too large for float8.
    saturated: u64,
}

impl FeatureWriter {
    /// Creates a writer for rows of `columns` values of type `kind`; `said` is the stored type by the metadata. With
    /// `float8`, the values are written as float8.
    pub(crate) fn create(
        path: &Path,
        source: FeatureSource,
        (kind, said): (NpyType, Option<ElementType>),
        columns: usize,
        float8: Option<Float8>,
    ) -> Result<FeatureWriter, GraphError> {
        let (element, target) = feature_type(kind, said);
        // Values that are float8 already are unchanged.
        let float8 = float8.filter(|_| element != ElementType::E4m3);
        let written = if float8.is_some() { NpyType::U8 } else { target };
        let writer = NpyWriter::create(path, written, &[columns])?;
        let columns = columns as u64;
        Ok(FeatureWriter {
            writer,
            source,
            columns,
            kind,
            element,
            target,
            float8,
            position: 0,
            saturated: 0,
        })
    }

    /// The conversion, in one line; nothing if the values are kept.
    pub(crate) fn conversion(&self) -> Option<String> {
        if self.float8.is_some() {
            let from =
                if self.element == ElementType::Bf16 { "bfloat16".to_owned() } else { self.kind.to_string() };
            return Some(format!("{}: {from} becomes float8_e4m3fn", self.source.place.display()));
        }
        let kept = self.kind == self.target || self.kind == NpyType::Bool;
        (!kept).then(|| format!("{}: {} becomes float32", self.source.place.display(), self.kind))
    }

    /// Writes values in the source's type.
    ///
    /// # Errors
    /// If a value is not finite, or not finite as float32.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), GraphError> {
        if self.float8.is_some() {
            let values = match self.element {
                ElementType::Bf16 => {
                    let (values, _) = bytes.as_chunks::<2>();
                    values.iter().map(|&bytes| half::bf16::from_le_bytes(bytes).to_f64()).collect()
                }
                _ => values::floats(self.kind, bytes),
            };
            return self.write_float8(&values);
        }
        if self.kind == self.target || self.kind == NpyType::Bool {
            let wrong = match self.element {
                ElementType::U8 | ElementType::I8 => None,
                // This type has no infinities, and one NaN of each sign.
                ElementType::E4m3 => {
                    first_not_finite(
                        bytes,
                        |[bits]: [u8; 1]| {
                            if bits & 0x7f == 0x7f { f32::NAN } else { 0.0 }
                        },
                    )
                }
                ElementType::F32 => first_not_finite(bytes, f32::from_le_bytes),
                ElementType::F16 => first_not_finite(bytes, |bytes| half::f16::from_le_bytes(bytes).to_f32()),
                ElementType::Bf16 => {
                    first_not_finite(bytes, |bytes| half::bf16::from_le_bytes(bytes).to_f32())
                }
            };
            if let Some((at, value)) = wrong {
                return Err(self.refusal(at, value.into()));
            }
            self.position += (bytes.len() / self.kind.bytes()) as u64;
            return self.writer.write_bytes(bytes);
        }
        let values = values::floats(self.kind, bytes);
        let narrowed: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        if let Some(at) = narrowed.iter().position(|value| !value.is_finite()) {
            return Err(self.refusal(at, values[at]));
        }
        self.position += values.len() as u64;
        self.writer.write(&narrowed)
    }

    /// Writes float32 values computed by an importer.
    ///
    /// # Errors
    /// If a value is not finite.
    pub(crate) fn write_floats(&mut self, values: &[f32]) -> Result<(), GraphError> {
        if self.float8.is_some() {
            return self.write_float8(&values.iter().map(|&value| value.into()).collect::<Vec<_>>());
        }
        if values.iter().fold(false, |any, value| any | !value.is_finite())
            && let Some(at) = values.iter().position(|value| !value.is_finite())
        {
            return Err(self.refusal(at, values[at].into()));
        }
        self.position += values.len() as u64;
        self.writer.write(values)
    }

    fn write_float8(&mut self, values: &[f64]) -> Result<(), GraphError> {
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(self.refusal(at, values[at]));
        }
        self.position += values.len() as u64;
        let largest = f64::from(float8::LARGEST);
        self.saturated += values.iter().filter(|value| value.abs() > largest).count() as u64;
        self.writer
            .write_bytes(&values.iter().map(|&value| float8::from_f32(value as f32)).collect::<Vec<_>>())
    }

    /// The error about the value `ahead` positions after the written values.
    fn refusal(&self, ahead: usize, value: f64) -> GraphError {
        let position = self.position + ahead as u64;
        let (row, column) = (position / self.columns, position % self.columns);
        let at = match self.source.data_offset {
            Some(offset) => format!("at offset {} ", offset + position * self.kind.bytes() as u64),
            None => String::new(),
        };
        GraphError::invalid(
            &self.source.place,
            match value.is_finite() {
                true => FeatureProblem::TooLarge { row, column, at, value },
                false => FeatureProblem::NotFinite { row, column, at, value },
            },
        )
    }

    /// Ends the file. Returns the type of its values, and a line about those that were too large for float8.
    ///
    /// # Errors
    /// If these are more than one in a thousand and the options do not allow it.
    pub(crate) fn finish(self) -> Result<(ElementType, Option<String>), GraphError> {
        self.writer.finish()?;
        let Some(Float8 { saturate }) = self.float8 else { return Ok((self.element, None)) };
        let (count, of) = (self.saturated, self.position);
        if !saturate && count.saturating_mul(1000) > of {
            return Err(GraphError::invalid(&self.source.place, FeatureProblem::Saturated { count, of }));
        }
        let line = format!("{count} of {of} features were beyond ±448 and are clamped to ±448");
        Ok((ElementType::E4m3, (count > 0).then_some(line)))
    }
}

/// The stored type of values of a type: the same if a dataset supports it, else float32. Bits of a type without a name
/// in `.npy` have the type `said` by the metadata.
pub(crate) fn feature_type(kind: NpyType, said: Option<ElementType>) -> (ElementType, NpyType) {
    match kind {
        NpyType::F16 => (ElementType::F16, NpyType::F16),
        NpyType::I8 => (ElementType::I8, NpyType::I8),
        NpyType::U8 if said == Some(ElementType::E4m3) => (ElementType::E4m3, NpyType::U8),
        NpyType::U8 | NpyType::Bool => (ElementType::U8, NpyType::U8),
        NpyType::U16 if said == Some(ElementType::Bf16) => (ElementType::Bf16, NpyType::U16),
        _ => (ElementType::F32, NpyType::F32),
    }
}

fn first_not_finite<const SIZE: usize>(
    bytes: &[u8],
    decode: impl Fn([u8; SIZE]) -> f32,
) -> Option<(usize, f32)> {
    let (values, _) = bytes.as_chunks::<SIZE>();
    // Without a branch per value, so that the compiler can use vector instructions.
    let any = values.iter().fold(false, |any, &value| any | !decode(value).is_finite());
    let at = any.then(|| values.iter().position(|&value| !decode(value).is_finite()))??;
    Some((at, decode(values[at])))
}
