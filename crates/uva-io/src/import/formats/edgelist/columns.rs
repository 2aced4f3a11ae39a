//! The columns of a line: separated by a character or by blanks, and optionally quoted as in RFC 4180.

use std::borrow::Cow;

use crate::import::options::Separator;

/// Why a line has no columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnProblem {
    /// A quote that does not end on the line.
    Open,
    /// Text after a closing quote.
    Behind,
}

impl ColumnProblem {
    /// Worded to follow "it has".
    pub(super) fn text(self) -> &'static str {
        match self {
            ColumnProblem::Open => "a column with an opening quote without a closing one",
            ColumnProblem::Behind => "text after the closing quote of a column",
        }
    }
}

/// The columns of a line, from the first on. Blanks around a column that is not quoted are not part of it.
pub(super) struct Columns<'t> {
    /// The text from the next column on; `None` after the last.
    rest: Option<&'t [u8]>,
    separator: Separator,
    quotes: bool,
}

impl<'t> Columns<'t> {
    pub(super) fn of(line: &'t [u8], separator: Separator, quotes: bool) -> Columns<'t> {
        // Trailing separators of blanks or tabs make no column; a leading tab does, if tabs separate.
        let line = trimmed_start(line.trim_ascii_end(), separator);
        Columns { rest: Some(line), separator, quotes }
    }

    /// Whether all columns have been read.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_none()
    }

    /// The next column; nothing after the last.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Cow<'t, [u8]>>, ColumnProblem> {
        let Some(text) = self.rest else { return Ok(None) };
        if self.quotes && text.first() == Some(&b'"') {
            return self.quoted(text).map(Some);
        }
        let end = match self.separator {
            Separator::Byte(byte) => memchr::memchr(byte, text),
            Separator::Blanks => text.iter().position(|&c| is_blank(c)),
        };
        self.rest = end.map(|end| self.behind(&text[end..]));
        Ok(Some(Cow::Borrowed(text[..end.unwrap_or(text.len())].trim_ascii_end())))
    }

    fn quoted(&mut self, text: &'t [u8]) -> Result<Cow<'t, [u8]>, ColumnProblem> {
        let mut column = Cow::Borrowed(&text[1..1]);
        // text[at..] is not yet part of it.
        let mut at = 1;
        loop {
            let end = at + memchr::memchr(b'"', &text[at..]).ok_or(ColumnProblem::Open)?;
            let doubled = text.get(end + 1) == Some(&b'"');
            let piece = &text[at..if doubled { end + 1 } else { end }];
            if column.is_empty() {
                column = Cow::Borrowed(piece);
            } else {
                column.to_mut().extend_from_slice(piece);
            }
            if doubled {
                at = end + 2;
                continue;
            }
            let behind = match self.separator {
                Separator::Byte(_) => trimmed_start(&text[end + 1..], self.separator),
                Separator::Blanks => &text[end + 1..],
            };
            self.rest = match (behind.first(), self.separator) {
                (None, _) => None,
                (Some(&found), Separator::Byte(byte)) if found == byte => Some(self.behind(behind)),
                (Some(&found), Separator::Blanks) if is_blank(found) => Some(self.behind(behind)),
                _ => return Err(ColumnProblem::Behind),
            };
            return Ok(column);
        }
    }

    /// The text after the separator that `text` begins with.
    fn behind(&self, text: &'t [u8]) -> &'t [u8] {
        match self.separator {
            Separator::Byte(_) => trimmed_start(&text[1..], self.separator),
            Separator::Blanks => text.trim_ascii_start(),
        }
    }
}

/// Whether a line begins as a comment.
pub(super) fn is_comment(text: &[u8]) -> bool {
    matches!(text.trim_ascii_start().first(), Some(b'#' | b'%'))
}

fn is_blank(c: u8) -> bool {
    c == b' ' || c == b'\t'
}

/// Removes leading blanks that do not separate columns.
fn trimmed_start(text: &[u8], separator: Separator) -> &[u8] {
    let separates = |c: u8| separator == Separator::Byte(c);
    let end = text.iter().position(|&c| !c.is_ascii_whitespace() || separates(c)).unwrap_or(text.len());
    &text[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, separator: Separator) -> Result<Vec<String>, ColumnProblem> {
        let mut columns = Columns::of(line.as_bytes(), separator, true);
        let mut all = Vec::new();
        while let Some(column) = columns.next()? {
            all.push(String::from_utf8(column.into_owned()).unwrap());
        }
        Ok(all)
    }

    #[test]
    fn columns_are_split_where_the_separator_says_and_trimmed() {
        let (comma, tab) = (Separator::Byte(b','), Separator::Byte(b'\t'));
        for (line, separator, columns) in [
            ("a,b", comma, &["a", "b"][..]),
            (" a b , c ", comma, &["a b", "c"]),
            ("a,,b", comma, &["a", "", "b"]),
            ("a\t\tb", tab, &["a", "", "b"]),
            ("\tb", tab, &["", "b"]),
            ("a \t b\t", tab, &["a", "b"]),
            (" a \t b ", Separator::Blanks, &["a", "b"]),
        ] {
            assert_eq!(read(line, separator).unwrap(), columns, "{line}");
        }
    }

    #[test]
    fn quotes_are_read_as_rfc_4180_has_them() {
        let (comma, tab, blanks) = (Separator::Byte(b','), Separator::Byte(b'\t'), Separator::Blanks);
        for (line, separator, columns) in [
            (r#""Smith, J",b"#, comma, &["Smith, J", "b"][..]),
            (r#""a" , "b""#, comma, &["a", "b"]),
            ("\"a\tb\"\t\" c \"", tab, &["a\tb", " c "]),
            (r#""a b" c"#, blanks, &["a b", "c"]),
            (r#""say ""yes""",b"#, comma, &[r#"say "yes""#, "b"]),
            (r#""""a""","""""#, comma, &["\"a\"", "\""]),
            (r#""",b"#, comma, &["", "b"]),
            (r#"5" disk,b"#, comma, &["5\" disk", "b"]),
        ] {
            assert_eq!(
                read(line, separator),
                Ok(columns.iter().map(|&column| column.to_owned()).collect()),
                "{line}"
            );
        }
        assert_eq!(read("\"a,b", comma), Err(ColumnProblem::Open));
        assert_eq!(read("\"a\" b,c", comma), Err(ColumnProblem::Behind));
        assert_eq!(read("\"a\",b", tab), Err(ColumnProblem::Behind));
        let mut columns = Columns::of(b"\"a\",b", comma, false);
        assert_eq!(columns.next(), Ok(Some(Cow::Borrowed(&b"\"a\""[..]))));
    }
}
