//! Declares a struct of options, and derives the rest from it.

use serde_json::{Map, Value};

use crate::error::OptionError;
use crate::field::{Field, OptionPurpose};

/// A struct that `options!` declared. Options are named as in [`Field::name`].
pub trait Options: Default {
    /// Every field, in the order in which help lists them.
    const FIELDS: &'static [Field];

    /// Sets a field of the struct to a value that [`Field::read`] returned. `false`: there is no such field, or the
    /// field does not accept the value.
    fn set(&mut self, field: &Field, text: &str) -> bool;

    /// A field's value as text.
    fn text(&self, field: &Field) -> String;

    /// A field's value in the form of messages and metrics.
    fn json(&self, field: &Field) -> Value;

    /// The fields that are options.
    fn declared() -> impl Iterator<Item = &'static Field> {
        Self::FIELDS.iter().filter(|field| field.is_option())
    }

    /// The option of this name.
    fn field(name: &str) -> Option<&'static Field> {
        Self::declared().find(|field| field.name == name)
    }

    /// Whether an option takes effect, given the others.
    fn is_in_force(&self, field: &Field) -> bool {
        field.only_with.is_none_or(|(name, values)| {
            Self::field(name).is_some_and(|other| values().contains(&self.text(other).as_str()))
        })
    }

    /// The options in force that `purpose` depends on.
    fn that(&self, purpose: OptionPurpose) -> impl Iterator<Item = &'static Field> {
        Self::declared().filter(move |field| field.purposes.contains(&purpose) && self.is_in_force(field))
    }

    /// The same with their values, by name.
    fn values_for(&self, purpose: OptionPurpose) -> Map<String, Value> {
        self.that(purpose).map(|field| (field.name.to_owned(), self.json(field))).collect()
    }

    /// Checks each option in force, independently of the others.
    ///
    /// # Errors
    /// The first option whose value is out of range.
    fn check_ranges(&self) -> Result<(), OptionError> {
        let default = Self::default();
        for field in Self::declared().filter(|field| self.is_in_force(field)) {
            let text = self.text(field);
            // A default may be no valid value: then the option is not given.
            if text == default.text(field) {
                continue;
            }
            field.read(&text).map_err(|reason| OptionError::refused(field.name, &text, reason))?;
        }
        Ok(())
    }
}

/// Declares a struct of options. Each field has its help as documentation, a type, a default, and what it is:
///
/// ```
/// use uva_options::{Field, OptionPurpose, Options, options};
///
/// options! {
///     /// How batches are made.
///     pub struct LoaderOptions {
///         /// Seed nodes per batch
///         batch_size: usize = 1024 => Field::at_least("NODES", 1).of("Batches", &[OptionPurpose::Identity]),
///     }
/// }
///
/// assert_eq!(LoaderOptions::default().batch_size, 1024);
/// assert_eq!(LoaderOptions::field("batch_size").map(Field::range).as_deref(), Some("1 or more"));
/// ```
#[macro_export]
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $type:ty = $default:expr => $declared:expr,
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])* pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $crate::Options for $name {
            const FIELDS: &'static [$crate::Field] =
                &[$( $declared.declared(stringify!($field), concat!($($doc),*)), )*];

            fn set(&mut self, field: &$crate::Field, text: &str) -> bool {
                match field.field {
                    $( stringify!($field) => {
                        let value = <$type as $crate::OptionValue>::of_text(text);
                        value.map(|value| self.$field = value).is_some()
                    } )*
                    _ => false,
                }
            }

            fn text(&self, field: &$crate::Field) -> String {
                match field.field {
                    $( stringify!($field) => $crate::OptionValue::text(&self.$field), )*
                    _ => String::new(),
                }
            }

            fn json(&self, field: &$crate::Field) -> $crate::serde_json::Value {
                match field.field {
                    $( stringify!($field) => $crate::OptionValue::json(&self.$field), )*
                    _ => $crate::serde_json::Value::Null,
                }
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_map([$(
                    (stringify!($field), $crate::OptionValue::json(&self.$field)),
                )*])
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                use $crate::serde::de::Error;
                let mut read = Self::default();
                for (name, value) in $crate::serde_json::Map::deserialize(from)? {
                    match name.as_str() {
                        $( stringify!($field) => {
                            read.$field = $crate::OptionValue::of_json(&value)
                                .ok_or_else(|| D::Error::custom(format!("{name} cannot be {value}")))?;
                        } )*
                        _ => {
                            let near = $crate::nearest(&name, [$( stringify!($field) ),*]);
                            let near = near.map(|near| format!("; a similar one is {near}")).unwrap_or_default();
                            return Err(D::Error::custom(format!("there is no option {name}{near}")));
                        }
                    }
                }
                Ok(read)
            }
        }
    };
}
