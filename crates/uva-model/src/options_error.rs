//! Errors for options and datasets that do not make a valid model.

/// The reason why these options and this dataset do not make a valid model. The user must change one of them (exit code
/// 2).
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
    /// The dataset needs a feature that no built-in model has.
    #[error("the built-in models cannot train on this dataset: {0}")]
    Unsupported(String),
}
