//! Types that an option's value may have.

use serde_json::Value;

/// A value that text and JSON can hold.
pub trait OptionValue: Sized + PartialEq {
    /// Reads what [`text`](Self::text) writes; `None` for other text. [`Field::read`](super::Field::read) writes the
    /// messages for people.
    fn of_text(text: &str) -> Option<Self>;

    /// As on a command line. Empty where there is no value.
    fn text(&self) -> String;

    /// As in messages and metrics.
    fn json(&self) -> Value {
        self.text().into()
    }

    /// Reads what [`json`](Self::json) writes.
    fn of_json(value: &Value) -> Option<Self> {
        Self::of_text(value.as_str()?)
    }
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
plain_values!(bool, u32, u64, usize);

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
