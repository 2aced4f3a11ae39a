//! A table as comma-separated text (RFC 4180).

use std::io::{self, BufWriter, Write};

use super::values::{ColumnType, ColumnValues};

pub(super) struct CsvWriter<W: Write> {
    out: BufWriter<W>,
}

impl<W: Write> CsvWriter<W> {
    pub(super) fn new(out: W, columns: &[(String, ColumnType)]) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 18, out);
        for (place, (name, _)) in columns.iter().enumerate() {
            out.write_all(if place > 0 { b"," } else { b"" })?;
            text(&mut out, name)?;
        }
        out.write_all(b"\n")?;
        Ok(Self { out })
    }

    pub(super) fn write(&mut self, columns: &[ColumnValues<'_>]) -> io::Result<()> {
        let out = &mut self.out;
        for row in 0..columns.first().map_or(0, ColumnValues::len) {
            for (place, values) in columns.iter().enumerate() {
                out.write_all(if place > 0 { b"," } else { b"" })?;
                match values {
                    ColumnValues::Integers(values) => write!(out, "{}", values[row])?,
                    // Debug has exponents for very large and very small numbers, Display all their zeros.
                    ColumnValues::Reals(values) => write!(out, "{:?}", values[row])?,
                    ColumnValues::Texts(values) => text(out, values[row])?,
                }
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a field, with quotes if required.
fn text(out: &mut impl Write, field: &str) -> io::Result<()> {
    if !field.contains(['"', ',', '\n', '\r']) {
        return out.write_all(field.as_bytes());
    }
    write!(out, "\"{}\"", field.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_quotes_and_line_breaks_are_quoted() {
        let mut found = Vec::new();
        let columns = [
            ("id".to_owned(), ColumnType::Integer),
            ("a \"name\"".to_owned(), ColumnType::Text),
            ("share".to_owned(), ColumnType::Real),
        ];
        let mut writer = CsvWriter::new(&mut found, &columns).unwrap();
        let texts = vec!["Zoë, née \"Ω\"", "plain", "two\nlines", ""];
        let (ids, shares) = (vec![-1, 0, 1, i64::MAX], vec![0.1, 1.0, 1.5e-38, f32::MAX]);
        writer
            .write(&[ColumnValues::Integers(ids), ColumnValues::Texts(texts), ColumnValues::Reals(shares)])
            .unwrap();
        writer.finish().unwrap();
        let expected = "id,\"a \"\"name\"\"\",share\n\
                        -1,\"Zoë, née \"\"Ω\"\"\",0.1\n\
                        0,plain,1.0\n\
                        1,\"two\nlines\",1.5e-38\n\
                        9223372036854775807,,3.4028235e38\n";
        assert_eq!(String::from_utf8(found).unwrap(), expected);
    }
}
