//! Lays out blocks of lines for a terminal's width: side by side if they fit, with long lines folded if not.

/// Columns between two blocks.
const GAP: usize = 4;

/// Lays out blocks of text lines. Without a `width` they are stacked. With a width, blocks are placed side by side as
/// far as they fit, with an empty line between the rows.
pub fn of(blocks: &[String], width: Option<usize>) -> String {
    let Some(width) = width else { return blocks.join("\n") };
    let mut rows: Vec<Vec<&str>> = Vec::new();
    let mut used = 0;
    for block in blocks {
        let wide = columns(block);
        match rows.last_mut() {
            Some(row) if used + GAP + wide <= width => {
                used += GAP + wide;
                row.push(block);
            }
            _ => {
                used = wide;
                rows.push(vec![block]);
            }
        }
    }
    rows.iter().map(|row| beside(row)).collect::<Vec<_>>().join("\n")
}

/// Places blocks side by side, the lines of each at one column.
fn beside(blocks: &[&str]) -> String {
    let height = blocks.iter().map(|block| block.lines().count()).max().unwrap_or(0);
    let mut text = String::new();
    for number in 0..height {
        let (mut line, mut begins) = (String::new(), 0);
        for block in blocks {
            let missing = begins - line.chars().count();
            line.extend(std::iter::repeat_n(' ', missing));
            line += block.lines().nth(number).unwrap_or_default();
            begins += columns(block) + GAP;
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn columns(block: &str) -> usize {
    block.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Joins the parts with commas. With a `width`, lines have at most that many characters, unless a single part is
/// longer.
pub fn folded(parts: &[String], width: Option<usize>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line)
                if width.is_none_or(|width| line.chars().count() + 2 + part.chars().count() < width) =>
            {
                *line += ", ";
                *line += part;
            }
            Some(line) => {
                line.push(',');
                lines.push(part.clone());
            }
            None => lines.push(part.clone()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_side_by_side_if_they_fit_and_otherwise_stacked() {
        let blocks = ["ab\nc\n".to_owned(), "größe\n".to_owned(), "x\ny\nz\n".to_owned()];
        assert_eq!(of(&blocks, None), "ab\nc\n\ngröße\n\nx\ny\nz\n");
        assert_eq!(of(&blocks, Some(10)), "ab\nc\n\ngröße    x\n         y\n         z\n");
        assert_eq!(of(&blocks, Some(11)), "ab    größe\nc\n\nx\ny\nz\n");
        assert_eq!(of(&blocks, Some(16)), "ab    größe    x\nc              y\n               z\n");
        assert_eq!(of(&[], Some(16)), "");
    }

    #[test]
    fn parts_are_folded_at_commas_and_never_within() {
        let parts = ["0.5 of one".to_owned(), "0.25 of two".to_owned(), "3".to_owned()];
        assert_eq!(folded(&parts, None), ["0.5 of one, 0.25 of two, 3"]);
        assert_eq!(folded(&parts, Some(20)), ["0.5 of one,", "0.25 of two, 3"]);
        assert_eq!(folded(&parts, Some(3)), ["0.5 of one,", "0.25 of two,", "3"]);
        assert!(folded(&[], Some(3)).is_empty());
    }
}
