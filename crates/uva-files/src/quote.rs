//! Quotes of a file's content for messages: short, on one line, and without control characters for a terminal.

use crate::escape;

/// The maximum number of characters quoted from a word or a line.
const SHOWN: usize = 60;

/// The maximum number of characters quoted from another library's message, which may itself quote the file.
const SHOWN_OF_MESSAGE: usize = 200;

/// The maximum number of words quoted from a list.
const LISTED: usize = 8;

/// The beginning of a word or a line, safe for a terminal.
pub fn shown(text: impl AsRef<[u8]>) -> String {
    up_to(text.as_ref(), SHOWN)
}

/// The first line of another library's message, safe for a terminal.
pub fn message(text: &str) -> String {
    up_to(text.lines().next().unwrap_or_default().as_bytes(), SHOWN_OF_MESSAGE)
}

/// The first words of a list, each safe for a terminal, and the number of further words.
pub fn listed<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> String {
    let mut words = words.into_iter();
    let first: Vec<String> = words.by_ref().take(LISTED).map(shown).collect();
    match words.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn up_to(text: &[u8], most: usize) -> String {
    // A character has at most 4 bytes; the rest of a long line is not read.
    let beginning = &text[..text.len().min(4 * (most + 1))];
    let text = String::from_utf8_lossy(beginning);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", escape::word(&text[..end])),
        None => escape::word(&text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_the_rest_is_unchanged() {
        assert_eq!(shown("a\tb ü '…'"), "a\tb ü '…'");
        assert_eq!(
            shown("\x1b[2J\r\n\0\x7f\u{9b}\u{202e}\u{2066}\u{2028}"),
            "\\x1b[2J\\x0d\\n\\x00\\x7f\\u{9b}\\u{202e}\\u{2066}\\u{2028}"
        );
        assert_eq!(shown(b"\xff\xfe1"), "\u{fffd}\u{fffd}1");
    }

    #[test]
    fn long_words_messages_and_lists_are_cut_where_they_say_so() {
        assert_eq!(shown("x".repeat(60)), "x".repeat(60));
        assert_eq!(shown("€".repeat(1 << 20)), format!("{}…", "€".repeat(60)));
        assert_eq!(message(&format!("{}\nsecond line", "y".repeat(300))).chars().count(), 201);
        assert_eq!(message("one\ntwo"), "one");
        assert_eq!(listed(["a", "b"]), "a, b");
        assert_eq!(listed(["\x1b"; 10]), format!("{} and 2 more", ["\\x1b"; 8].join(", ")));
    }
}
