//! Values of options that typed graphs may restrict to some relations or node types.

use uva_graph::{GraphError, UnknownName};

/// A value for everything, or in a typed graph for the relations or node types of these names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scoped<T> {
    /// The value.
    pub value: T,
    /// The names; `None` for all.
    pub only: Option<Vec<String>>,
}

impl<T> From<T> for Scoped<T> {
    fn from(value: T) -> Self {
        Scoped { value, only: None }
    }
}

impl<T> Scoped<T> {
    /// The value for the relations or node types in `names`, which are separated by commas.
    pub fn of_names(value: T, names: &str) -> Self {
        Scoped { value, only: Some(names.split(',').map(|name| name.trim().to_owned()).collect()) }
    }

    /// Parses `VALUE`, or `VALUE=NAME,…`.
    pub fn from_text(text: &str, value: impl Fn(&str) -> Option<T>) -> Option<Self> {
        match text.split_once('=') {
            Some((text, names)) => Some(Self::of_names(value(text)?, names)),
            None => value(text).map(Self::from),
        }
    }

    /// Refuses names, for a source with one type of nodes and of edges. `option` has this value.
    pub(super) fn refuse_names(&self, option: &str) -> Result<(), GraphError> {
        match &self.only {
            None => Ok(()),
            Some(names) => {
                let message = format!("names of types ({}) require a typed graph", names.join(", "));
                Err(GraphError::usage(option, message))
            }
        }
    }
}

impl<T: Copy> Scoped<T> {
    /// The value for each of `count` relations or types, `None` for those that are not named. `find` finds a name.
    pub(super) fn values(
        &self,
        option: &str,
        count: usize,
        find: impl Fn(&str) -> Result<usize, UnknownName>,
    ) -> Result<Vec<Option<T>>, GraphError> {
        let Some(names) = &self.only else { return Ok(vec![Some(self.value); count]) };
        let mut values = vec![None; count];
        for name in names {
            let found = find(name).map_err(|unknown| GraphError::usage(option, unknown.to_string()))?;
            values[found] = Some(self.value);
        }
        Ok(values)
    }

    /// Whether the value is for named relations or types only.
    pub(super) fn is_named(&self) -> bool {
        self.only.is_some()
    }
}

impl Scoped<bool> {
    /// Parses `true`, `false`, or the names of those that it is true for.
    pub fn from_switch(text: &str) -> Self {
        match text {
            "true" => true.into(),
            "false" => false.into(),
            names => Self::of_names(true, names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_values_have_names_after_an_equals_sign() {
        assert_eq!(Scoped::from_switch("false"), false.into());
        let writes = Scoped { value: true, only: Some(vec!["writes".to_owned(), "a__b__a".to_owned()]) };
        assert_eq!(Scoped::from_switch("writes, a__b__a"), writes);
        let number = |text: &str| text.parse::<u8>().ok();
        assert_eq!(Scoped::from_text("3", number), Some(3.into()));
        let only = Some(vec!["x".to_owned()]);
        assert_eq!(Scoped::from_text("3=x", number), Some(Scoped { value: 3, only }));
        assert_eq!((Scoped::from_text("x=3", number), Scoped::from_text("", number)), (None, None));
    }
}
