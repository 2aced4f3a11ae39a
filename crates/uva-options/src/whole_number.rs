//! Whole numbers within bounds.

/// The bounds of a whole number, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeRange {
    /// The least value.
    pub least: u64,
    /// The greatest value. `None` for that of the type, which messages need not name.
    pub most: Option<u64>,
    /// The greatest value of the type.
    pub type_most: u64,
}

/// Reads a whole number within bounds.
///
/// # Errors
/// The reason for a refusal; the message names both bounds.
pub fn whole(text: &str, bounds: WholeRange) -> Result<u64, String> {
    let WholeRange { least, most, type_most } = bounds;
    let number: i128 = text.parse().map_err(|_| format!("'{text}' is not a whole number"))?;
    let given = u64::try_from(number).ok().filter(|given| *given >= least);
    given.filter(|given| *given <= most.unwrap_or(type_most)).ok_or_else(|| match most {
        Some(most) => format!("{number} is not from {least} to {most}"),
        None if given.is_some() || number > 0 => format!("{number} is too large"),
        None => format!("{number} is not {least} or more"),
    })
}
