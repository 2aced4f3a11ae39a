//! Sanitises text for a terminal. Names, licences, errors and responses are untrusted. A control character in them
//! would be a command to the terminal: it could move the cursor, hide a line, or set the title.
//!
//! All text for human readers passes through this module: the command line's output, messages, logs and charts, and the
//! messages of Python's exceptions. The program's own colours and bars are added around the sanitised text.

use std::borrow::Cow;
use std::fmt::Write;

/// Sanitises text of several lines. Control characters are shown as `\x1b`, bidirectional controls as `\u{202e}`; line
/// ends and tabs are kept.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |c| !matches!(c, '\n' | '\t') && is_command(c),
        |out, c| {
            let _ = match u32::from(c) {
                code @ ..0x80 => write!(out, "\\x{code:02x}"),
                code => write!(out, "\\u{{{code:x}}}"),
            };
        },
    )
}

/// Sanitises a part of a line, such as a name or a table cell. Line ends are escaped too, since they would forge
/// another line.
pub fn word(text: &str) -> Cow<'_, str> {
    match lines(text) {
        shown if shown.contains('\n') => Cow::Owned(shown.replace('\n', "\\n")),
        shown => shown,
    }
}

/// Sanitises JSON text by JSON escapes, which keep its meaning.
pub fn json(text: &str) -> Cow<'_, str> {
    // serde writes these characters in strings only, and each fits 16 bits.
    escaped(text, is_command, |out, c| {
        let _ = write!(out, "\\u{:04x}", u32::from(c));
    })
}

fn escaped(text: &str, wrong: impl Fn(char) -> bool, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.chars().any(&wrong) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if wrong(c) {
            escape(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// C0, DEL and C1; bidirectional marks, embeddings, overrides and isolates; the separators that some programs treat as
/// line ends.
fn is_command(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_to_a_terminal_are_shown_and_everything_else_stays() {
        for (text, shown) in [
            ("plain\ttext\nGröße 数 \u{1f600}", "plain\ttext\nGröße 数 \u{1f600}"),
            ("\x1b[2Jx\r\x07\0", "\\x1b[2Jx\\x0d\\x07\\x00"),
            ("a\x7fb\u{9b}31m", "a\\x7fb\\u{9b}31m"),
            ("\u{202e}cba\u{2066}\u{61c}", "\\u{202e}cba\\u{2066}\\u{61c}"),
        ] {
            assert_eq!(lines(text), shown);
        }
        assert_eq!(word("a\nb\x1b"), "a\\nb\\x1b");
        assert!(matches!(lines("as it is"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_means_what_it_meant() {
        let value = serde_json::json!({ "na\u{9b}me": "a\x1b\x7f\u{85}\u{202e}\n\"ü" });
        let text = serde_json::to_string(&value).unwrap();
        let shown = json(&text);
        assert!(!shown.chars().any(is_command), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
