//! What feature values are in slots: what the table has, or float32.

use serde::{Deserialize, Serialize};
use uva_graph::ElementType;
use uva_rows::HalfFloat;

use crate::RuntimeError;
use crate::backend::Backend;

/// What a batch's feature values are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureType {
    /// What the table has.
    #[default]
    Table,
    /// float32: where the table has float16 or bfloat16, the producer widens its values on the way into slots in host
    /// memory. Every such value is a float32, so nothing is rounded.
    Float32,
}

impl FeatureType {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Table, Self::Float32];

    /// Its name, as `--feature-type` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Float32 => "float32",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// What slots hold for a built-in model that is to get this, and converts by itself what comes otherwise: values of
    /// half precision are widened where the CPU trains. On the way to a GPU rows stay as they are, whoever copies them,
    /// since the link's bytes count.
    #[must_use]
    pub fn for_models(self, table: ElementType, backend: &Backend) -> Self {
        if half_float(table).is_some() && backend.cuda().is_none() { self } else { Self::Table }
    }

    /// What the values of such a table are widened from; `None`: they stay as they are.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] for float32 of a table of integers.
    pub(crate) fn widened_from(self, table: ElementType) -> Result<Option<HalfFloat>, RuntimeError> {
        match (self, table) {
            (Self::Table, _) | (Self::Float32, ElementType::F32) => Ok(None),
            (Self::Float32, _) => half_float(table).map(Some).ok_or_else(|| {
                let reason = format!(
                    "feat.npy has {table} values, and only f16 and bf16 are widened on the way. Leave `feature_type` \
                     out, and convert where the batch is used, as in batch.x.float()"
                );
                RuntimeError::option("feature_type", self.name(), reason)
            }),
        }
    }
}

fn half_float(table: ElementType) -> Option<HalfFloat> {
    match table {
        ElementType::F16 => Some(HalfFloat::F16),
        ElementType::Bf16 => Some(HalfFloat::Bf16),
        ElementType::F32 | ElementType::U8 | ElementType::I8 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_widened_floats_stay_and_integers_are_refused_with_what_to_write_instead() {
        let of = |table| FeatureType::Float32.widened_from(table);
        assert_eq!(of(ElementType::F16).unwrap(), Some(HalfFloat::F16));
        assert_eq!(of(ElementType::Bf16).unwrap(), Some(HalfFloat::Bf16));
        assert_eq!(of(ElementType::F32).unwrap(), None);
        for table in [ElementType::U8, ElementType::I8] {
            let refused = of(table).unwrap_err();
            assert_eq!(refused.exit_code(), 2);
            for part in ["feature_type=float32", table.name(), "batch.x.float()"] {
                assert!(refused.to_string().contains(part), "{part} in {refused}");
            }
        }
        for table in ElementType::ALL {
            assert_eq!(FeatureType::Table.widened_from(table).unwrap(), None, "{table}");
        }
    }

    #[test]
    fn names_lead_back() {
        for one in FeatureType::ALL {
            assert_eq!(FeatureType::from_name(one.name()), Some(one));
            assert_eq!(serde_json::to_value(one).unwrap(), one.name());
        }
        assert_eq!(FeatureType::from_name("f32"), None);
    }
}
