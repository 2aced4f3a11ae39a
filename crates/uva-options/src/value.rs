//! Types of option values.

use std::path::PathBuf;

use serde_json::Value;

use crate::Named;

/// A value that text and JSON can hold.
pub trait OptionValue: Sized + PartialEq {
    /// Reads what [`text`](Self::text) writes; `None` for other text. [`Field::read`](super::Field::read) writes the
    /// messages for people.
    fn of_text(text: &str) -> Option<Self>;

    /// The value as on a command line; empty if there is none.
    fn text(&self) -> String;

    /// The value as in messages and metrics.
    fn json(&self) -> Value {
        self.text().into()
    }

    /// Reads what [`json`](Self::json) writes.
    fn of_json(value: &Value) -> Option<Self> {
        Self::of_text(value.as_str()?)
    }
}

/// Implements values for types that are read, shown and stored as text.
#[macro_export]
macro_rules! text_values {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::OptionValue for $type {
            fn of_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn text(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

/// Implements values for types that serde reads and writes. Their text is JSON.
#[macro_export]
macro_rules! json_values {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::OptionValue for $type {
            fn of_text(text: &str) -> Option<Self> {
                Self::of_json(&text.parse().ok()?)
            }

            fn text(&self) -> String {
                self.json().to_string()
            }

            fn json(&self) -> ::serde_json::Value {
                ::serde_json::json!(self)
            }

            fn of_json(value: &::serde_json::Value) -> Option<Self> {
                ::serde::Deserialize::deserialize(value).ok()
            }
        }
    )*};
}

macro_rules! plain_values {
    ($($type:ty),*) => {$(
        impl OptionValue for $type {
            fn of_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn text(&self) -> String {
                self.to_string()
            }
            fn json(&self) -> Value {
                (*self).into()
            }
            fn of_json(value: &Value) -> Option<Self> {
                serde_json::from_value(value.clone()).ok()
            }
        }
    )*};
}
plain_values!(bool, u32, i64, u64, usize, f64);

impl<T: Named> OptionValue for T {
    fn of_text(text: &str) -> Option<Self> {
        T::all().into_iter().find(|value| value.name() == text)
    }

    fn text(&self) -> String {
        self.name().to_owned()
    }
}

/// Paths in UTF-8; front ends refuse others.
impl OptionValue for PathBuf {
    fn of_text(text: &str) -> Option<Self> {
        Some(text.into())
    }

    fn text(&self) -> String {
        self.to_string_lossy().into_owned()
    }
}

/// JSON that the program fills in.
impl OptionValue for Value {
    fn of_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Value {
        self.clone()
    }

    fn of_json(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}

impl OptionValue for Vec<i32> {
    fn of_text(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Vec::new());
        }
        text.split(',').map(|entry| entry.trim().parse().ok()).collect()
    }

    fn text(&self) -> String {
        self.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
    }

    fn json(&self) -> Value {
        self.clone().into()
    }

    fn of_json(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }
}

impl<T: OptionValue> OptionValue for Option<T> {
    fn of_text(text: &str) -> Option<Self> {
        if text.is_empty() { Some(None) } else { T::of_text(text).map(Some) }
    }

    fn text(&self) -> String {
        self.as_ref().map(T::text).unwrap_or_default()
    }

    fn json(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::json)
    }

    fn of_json(value: &Value) -> Option<Self> {
        if value.is_null() { Some(None) } else { T::of_json(value).map(Some) }
    }
}
