//! Options and datasets that no model can be made of.

/// Why no model can be made of these options or this dataset. The user changes one of them (exit code 2).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// An option has a value that cannot work.
    #[error("`{option}`: {problem}")]
    Option {
        /// The option's name with underscores, such as `weight_decay`.
        option: &'static str,
        /// The value and the problem with it.
        problem: String,
    },
    /// The dataset needs something that no built-in model has.
    #[error("the built-in models cannot train on this dataset: {0}")]
    Unsupported(String),
}
