//! Options given by name, and their values.

use std::marker::PhantomData;

use serde::ser::SerializeMap;

use crate::declare::Options;
use crate::error::OptionError;
use crate::field::{Field, OptionPurpose};
use crate::suggestion::nearest;

/// Options as given by name. The others stay open until [`options`](Self::options).
#[derive(Clone, Debug)]
pub struct PartialOptions<O> {
    /// A value for each of [`Options::FIELDS`], as [`Field::read`] returned it.
    values: Vec<Option<String>>,
    made: PhantomData<fn() -> O>,
}

impl<O: Options> Default for PartialOptions<O> {
    fn default() -> Self {
        Self { values: vec![None; O::FIELDS.len()], made: PhantomData }
    }
}

impl<O: Options> PartialOptions<O> {
    /// Sets an option.
    ///
    /// # Errors
    /// The option does not exist (the message suggests the nearest), or it does not accept this value.
    pub fn give(&mut self, name: &str, text: &str) -> Result<(), OptionError> {
        let Some(place) = place::<O>(name) else {
            let near = nearest(name, O::declared().map(|field| field.name));
            let near = near.map_or_else(String::new, |near| format!("; a similar one is `{near}`"));
            return Err(OptionError::of(name, format!("there is no such option{near}")));
        };
        let read = O::FIELDS[place].read(text).map_err(|reason| OptionError::refused(name, text, reason))?;
        self.values[place] = Some(read);
        Ok(())
    }

    /// The given value of an option, as [`Field::read`] returned it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(place::<O>(name)?)?.as_deref()
    }

    /// The complete options: given values, computed defaults, and the struct's defaults.
    #[must_use]
    pub fn options(&self) -> O {
        let mut options = O::default();
        for (field, value) in O::FIELDS.iter().zip(&self.values) {
            if let Some(text) = value.clone().or_else(|| field.computed.map(|compute| compute())) {
                let set = options.set(field, &text);
                debug_assert!(set, "{} cannot be {text}", field.name);
            }
        }
        options
    }

    /// Given options that affect more than speed and differ from their default, as `(option, value)`, in the order of
    /// their declaration.
    pub fn that_make_batches(&self) -> impl Iterator<Item = (&'static Field, &str)> {
        let default = O::default();
        O::FIELDS.iter().zip(&self.values).filter_map(move |(field, value)| {
            let counts = field.purposes.iter().any(|purpose| *purpose != OptionPurpose::Speed);
            let value = value
                .as_deref()
                .filter(|value| counts && (*value != default.text(field) || field.unless_given.is_some()))?;
            Some((field, value))
        })
    }

    /// Checks that the given options fit together, and that each takes effect in combination with the others.
    ///
    /// # Errors
    /// The first option that does not.
    pub fn check_use(&self, options: &O) -> Result<(), OptionError> {
        for (field, value) in O::FIELDS.iter().zip(&self.values) {
            if value.is_some() {
                if let Some(needed) = field.needs.filter(|needed| self.get(needed).is_none()) {
                    return Err(OptionError::of(field.name, format!("requires `{needed}`")));
                }
                if let Some(other) = field.excludes.iter().find(|other| self.get(other).is_some()) {
                    let reason = format!("cannot be used with `{other}`");
                    return Err(OptionError::of(field.name, reason));
                }
            }
            if let (Some((other, needed)), Some(_), false) =
                (field.only_with, value, options.is_in_force(field))
            {
                let (name, needed) = (field.name, needed());
                let has = O::field(other).map(|other| options.text(other)).unwrap_or_default();
                let reason =
                    format!("only valid with `{other}={}`, not with `{other}={has}`", needed.join(" or "));
                return Err(OptionError::of(name, reason));
            }
        }
        Ok(())
    }

    /// Adds every option that `shown` accepts to a map, in the form of the metrics: `null` for an option that is not
    /// given and has no constant default. Options without effect under the others' defaults are omitted unless given.
    ///
    /// # Errors
    /// The serializer's error.
    pub fn add_to<M: SerializeMap>(
        &self,
        map: &mut M,
        shown: impl Fn(&Field) -> bool,
    ) -> Result<(), M::Error> {
        let (mut options, defaults) = (O::default(), O::default());
        let fields = O::FIELDS.iter().zip(&self.values);
        for (field, value) in fields.filter(|(field, _)| field.is_option() && shown(field)) {
            match value {
                Some(text) => {
                    options.set(field, text);
                    map.serialize_entry(field.name, &options.json(field))?;
                }
                None if !defaults.is_in_force(field) => {}
                None if field.unless_given.is_some() => map.serialize_entry(field.name, &())?,
                None => map.serialize_entry(field.name, &options.json(field))?,
            }
        }
        Ok(())
    }
}

fn place<O: Options>(name: &str) -> Option<usize> {
    O::FIELDS.iter().position(|field| field.is_option() && field.name == name)
}
