//! The closest known name to an unknown one.

/// The name most similar to `name`, if any is similar enough. The measure and its limit are clap's, so that a file and
/// a command line suggest the same.
pub fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    names
        .into_iter()
        .map(|other| (strsim::jaro(name, other), other))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}
