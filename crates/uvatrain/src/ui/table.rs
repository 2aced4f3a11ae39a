//! Plain aligned tables.

use uva_files::escape;

/// A table of text: the first column flush left, the others flush right by default.
#[derive(Debug, Default)]
pub struct TextTable {
    rows: Vec<Vec<String>>,
    left: bool,
    headed: bool,
}

impl TextTable {
    /// A table of names and values: every column flush left, no heading.
    pub fn of_facts() -> TextTable {
        TextTable { left: true, ..TextTable::default() }
    }

    /// A table with a heading and columns of numbers.
    pub fn with_heading(heading: &[&str]) -> TextTable {
        let mut table = TextTable { headed: true, ..TextTable::default() };
        table.row(heading);
        table
    }

    /// Adds a row. A cell always stays one line.
    pub fn row<S: AsRef<str>>(&mut self, cells: &[S]) {
        self.rows.push(cells.iter().map(|cell| escape::word(cell.as_ref()).into_owned()).collect());
    }

    /// The table as text: a line per row, two spaces between columns, and no trailing spaces.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                let padding = " ".repeat(widths[column] - cell.chars().count());
                line += gap;
                if self.left || column == 0 {
                    line += cell;
                    line += &padding;
                } else {
                    line += &padding;
                    line += cell;
                }
            }
            text += line.trim_end();
            text.push('\n');
            if self.headed && index == 0 {
                text += &"─".repeat(widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1));
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_line_up_on_the_right() {
        let mut table = TextTable::with_heading(&["role", "working"]);
        table.row(&["sampler", "3.21 s"]);
        table.row(&["producer", "12.0 s"]);
        assert_eq!(
            table.render(),
            "role      working\n─────────────────\nsampler    3.21 s\nproducer   12.0 s\n"
        );
    }

    #[test]
    fn facts_line_up_on_the_left_and_end_without_spaces() {
        let mut table = TextTable::of_facts();
        table.row(&["nodes", "7"]);
        table.row(&["isolated nodes", "1,000", "14 %"]);
        table.row(&["name", ""]);
        assert_eq!(table.render(), "nodes           7\nisolated nodes  1,000  14 %\nname\n");
    }

    #[test]
    fn width_counts_characters_not_bytes() {
        let mut table = TextTable::of_facts();
        table.row(&["größe", "1"]);
        table.row(&["size", "2"]);
        assert_eq!(table.render(), "größe  1\nsize   2\n");
    }
}
