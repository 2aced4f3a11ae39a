//! Text as HTML that is well-formed XML too. What comes from a file becomes a part of the page by these ways only.

use std::fmt::Write;

/// Text as it may stand between tags and within quotes. What XML has no place for becomes a replacement character.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(character),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ if character.is_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// The same, with what stands between backquotes as code.
pub fn prose(text: &str) -> String {
    let mut html = String::new();
    for (index, part) in text.split('`').enumerate() {
        // A number and its percent sign are not torn apart.
        let part = escape(part).replace(" %", "\u{a0}%");
        let _ = if index % 2 == 1 { write!(html, "<code>{part}</code>") } else { write!(html, "{part}") };
    }
    html
}

/// The beginning of a text that may be long.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A table whose first column names its rows. Wider than the page, it scrolls in a box of its own.
pub struct Table {
    caption: String,
    html: String,
}

impl Table {
    /// Without rows yet; with these columns.
    pub fn new(caption: &str, columns: &[&str]) -> Self {
        let heads: String =
            columns.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name))).collect();
        Self { caption: escape(caption), html: format!("<thead><tr>{heads}</tr></thead>\n<tbody>\n") }
    }

    /// Adds a row of text.
    pub fn row<S: AsRef<str>>(&mut self, cells: &[S]) {
        self.row_of_html(&cells.iter().map(|cell| escape(cell.as_ref())).collect::<Vec<_>>());
    }

    /// Adds a row of what is HTML already.
    pub fn row_of_html(&mut self, cells: &[String]) {
        self.html += "<tr>";
        for (index, cell) in cells.iter().enumerate() {
            let _ = match index {
                0 => write!(self.html, "<th scope=\"row\">{cell}</th>"),
                _ => write!(self.html, "<td>{cell}</td>"),
            };
        }
        self.html += "</tr>\n";
    }

    /// The table in its box. The box can be reached by the keyboard, since it may have to be scrolled.
    pub fn html(&self) -> String {
        let Self { caption, html } = self;
        format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\
             <table><caption>{caption}</caption>\n{html}</tbody></table></div>\n"
        )
    }

    /// The same, folded away until somebody asks for it.
    pub fn folded(&self) -> String {
        folded(&self.caption, &self.html())
    }
}

/// Something folded away behind a line.
pub fn folded(summary: &str, html: &str) -> String {
    format!("<details><summary>{summary}</summary>\n{html}</details>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        assert_eq!(
            escape("<script>'&\"\u{0}\u{1b}\u{ffff}"),
            "&lt;script&gt;&#39;&amp;&quot;\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(prose("take `--slots 3` & <wait>"), "take <code>--slots 3</code> &amp; &lt;wait&gt;");
        assert_eq!(shortened("größer", 4), "größ…");
        assert_eq!(shortened("größer", 6), "größer");
    }

    #[test]
    fn a_table_names_its_rows_and_columns() {
        let mut table = Table::new("a & b", &["role", "<s>"]);
        table.row(&["sampler", "1 < 2"]);
        let html = table.html();
        assert!(
            html.contains("<caption>a &amp; b</caption>")
                && html.contains("<th scope=\"col\">&lt;s&gt;</th>")
        );
        assert!(html.contains("<th scope=\"row\">sampler</th><td>1 &lt; 2</td>"), "{html}");
    }
}
