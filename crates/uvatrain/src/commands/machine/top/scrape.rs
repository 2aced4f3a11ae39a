//! A parser of Prometheus' text format, as `--metrics-listen` writes it.

use std::collections::BTreeMap;

/// The samples of one answer.
#[derive(Debug, Default)]
pub struct Scrape(Vec<Sample>);

#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Scrape {
    /// Parses every line that is not a comment.
    ///
    /// # Errors
    /// The first line that is not a sample.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        lines.map(|line| sample(line).ok_or_else(|| line.to_owned())).collect::<Result<_, _>>().map(Self)
    }

    /// The value of the sample with these labels. Its other labels are ignored.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.all(name)
            .find(|(of_it, _)| {
                labels.iter().all(|(label, value)| of_it.get(*label).is_some_and(|is| is == value))
            })
            .map(|(_, value)| value)
    }

    /// A label of the first sample of a name.
    pub fn label(&self, name: &str, label: &str) -> Option<&str> {
        self.all(name).next()?.0.get(label).map(String::as_str)
    }

    /// The samples of a name, in the order of the answer.
    pub fn all(&self, name: &str) -> impl Iterator<Item = (&BTreeMap<String, String>, f64)> {
        self.0.iter().filter(move |sample| sample.name == name).map(|sample| (&sample.labels, sample.value))
    }
}

/// `NAME VALUE`, or `NAME{LABEL="TEXT",…} VALUE`.
fn sample(line: &str) -> Option<Sample> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = line.find(|c| !is_name(c))?;
    let (name, mut rest) = line.split_at(end);
    if name.is_empty() {
        return None;
    }
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, behind) = rest.split_once("=\"")?;
            let (value, behind) = quoted(behind)?;
            labels.insert(label.trim().to_owned(), value);
            rest = behind.strip_prefix(',').unwrap_or(behind);
        }
        rest = &rest[1..];
    }
    // A timestamp may follow the value.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// A text up to its closing quote with escapes resolved, and the text after the quote.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[place + 1..])),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_their_labels_and_escapes() {
        let text = "# HELP a b\n# TYPE a gauge\na 1.5\nb{x=\"1\",y=\"a\\\"b\\\\c\\nd}\"} 2\nb{x=\"2\",y=\"\"} 3 1700000000\n\n";
        let figures = Scrape::parse(text).unwrap();
        assert_eq!(figures.value("a", &[]), Some(1.5));
        assert_eq!(figures.value("b", &[("x", "2")]), Some(3.0));
        assert_eq!(figures.label("b", "y"), Some("a\"b\\c\nd}"));
        assert_eq!(figures.value("b", &[("x", "3")]), None);
        assert_eq!(figures.all("b").count(), 2);
    }

    #[test]
    fn invalid_samples_are_refused() {
        for text in ["<html>", "a", "a b", "a{x=\"1\" 2", "a{x=1} 2", "{} 1", "a{x=\"1\"}", "a{x"] {
            assert_eq!(Scrape::parse(text).map(|_| ()), Err(text.to_owned()));
        }
    }
}
