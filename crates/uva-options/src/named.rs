//! Values that have names: the few that an option accepts.

/// A value of a few, each with a name and a line of help.
pub trait Named: Copy + PartialEq + 'static {
    /// Every value, in the order of help.
    fn all() -> Vec<Self>;

    /// The name in options, messages and files.
    fn name(self) -> &'static str;

    /// What it means, for help.
    fn help(self) -> &'static str;
}

/// Declares an enum of named values. Documentation of a value is its help. The value after `=` is the default.
///
/// ```
/// uva_options::named! {
///     /// What is done to rows between layers.
///     pub enum Norm = None {
///         /// Nothing.
///         None = "none",
///         /// Layer normalisation.
///         Layer = "layer",
///     }
/// }
///
/// assert_eq!(Norm::from_name("layer"), Some(Norm::Layer));
/// assert_eq!(Norm::default().help(), "Nothing");
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $enum:ident = $default:ident {
            $( $(#[doc = $help:literal])+ $value:ident = $name:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $enum {
            $( $(#[doc = $help])+ $value, )+
        }

        impl $enum {
            /// Every value, in the order of help.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// The name in options, messages and files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$value => $name, )+ }
            }

            /// What it means, for help.
            #[must_use]
            pub fn help(self) -> &'static str {
                let help = match self { $( Self::$value => concat!($($help),+), )+ };
                help.trim().trim_end_matches('.')
            }

            /// The value of this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }

        impl Default for $enum {
            fn default() -> Self {
                Self::$default
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl $crate::Named for $enum {
            fn all() -> Vec<Self> {
                Self::ALL.to_vec()
            }

            fn name(self) -> &'static str {
                self.name()
            }

            fn help(self) -> &'static str {
                self.help()
            }
        }

        impl $crate::serde::Serialize for $enum {
            fn serialize<S: $crate::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $enum {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let name = <String as $crate::serde::Deserialize>::deserialize(from)?;
                Self::from_name(&name).ok_or_else(|| {
                    let names = Self::ALL.map(Self::name).join(", ");
                    $crate::serde::de::Error::custom(format!("'{name}' is not one of {names}"))
                })
            }
        }
    };
}
