//! The feature type of slots: the table's, or float32.

use uva_graph::ElementType;
use uva_options::named;

use crate::LayoutError;

named! {
    /// The type of a batch's feature values.
    ///
    /// [`Float32`](Self::Float32): where the table has float16, bfloat16 or float8, the producer widens its values on the way into
    /// slots in host memory. Every such value is a float32, so nothing is rounded.
    pub enum FeatureType = Table {
        /// The type of the table.
        Table = "table",
        /// float32.
        Float32 = "float32",
    }
}

impl FeatureType {
    /// The type that slots hold for a built-in model that requests this one and converts the rest itself. Narrower
    /// floats are widened where the CPU trains. Rows that are copied to a GPU are not converted, since the link's bytes
    /// count.
    #[must_use]
    pub fn for_models(self, table: ElementType, gpu_trains: bool) -> Self {
        match table {
            ElementType::F16 | ElementType::Bf16 | ElementType::E4m3 if !gpu_trains => self,
            _ => Self::Table,
        }
    }

    /// The type from which the values of such a table are widened; `None`: they are not.
    ///
    /// # Errors
    /// [`LayoutError::NotWidened`] for float32 of a table of integers.
    pub fn widened_from(self, table: ElementType) -> Result<Option<ElementType>, LayoutError> {
        match (self, table) {
            (Self::Table, _) | (Self::Float32, ElementType::F32) => Ok(None),
            (Self::Float32, ElementType::F16 | ElementType::Bf16 | ElementType::E4m3) => Ok(Some(table)),
            (Self::Float32, ElementType::U8 | ElementType::I8) => Err(LayoutError::NotWidened { table }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_floats_are_widened_floats_stay_and_integers_are_refused() {
        let of = |table| FeatureType::Float32.widened_from(table);
        for narrow in [ElementType::F16, ElementType::Bf16, ElementType::E4m3] {
            assert_eq!(of(narrow), Ok(Some(narrow)));
        }
        assert_eq!(of(ElementType::F32), Ok(None));
        for table in [ElementType::U8, ElementType::I8] {
            let refused = of(table).unwrap_err();
            assert_eq!(refused, LayoutError::NotWidened { table });
            for part in ["`feature_type=float32`", table.name(), "batch.x.float()"] {
                assert!(refused.to_string().contains(part), "{part} in {refused}");
            }
        }
        for table in ElementType::ALL {
            assert_eq!(FeatureType::Table.widened_from(table), Ok(None), "{table}");
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
