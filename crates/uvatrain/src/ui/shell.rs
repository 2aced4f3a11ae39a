//! Command lines that users type, quoted for a shell.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A word of a command line, quoted if a shell would read it as something else. Control characters and invalid UTF-8
/// are escaped, as Bash, Zsh and POSIX 2024 read them.
pub fn word(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(byte);
    let quoted = match std::str::from_utf8(bytes) {
        // A tilde, and a word that the shell would split, are quoted as well.
        Ok(text) if !text.is_empty() && bytes.iter().all(is_plain) => return text.to_owned(),
        Ok(text) if uva_files::escape::word(text) == text && !text.contains('\t') => {
            return format!("'{}'", text.replace('\'', r"'\''"));
        }
        _ => bytes.iter().map(|&byte| match byte {
            b'\'' | b'\\' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        }),
    };
    format!("$'{}'", quoted.collect::<String>())
}

/// A path as an argument: a leading dash does not make it an option.
pub fn path(path: &Path) -> String {
    match path.as_os_str().as_bytes().starts_with(b"-") {
        true => word(Path::new(".").join(path)),
        false => word(path),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_each_word_unchanged() {
        for (text, quoted) in [
            ("data/mine", "data/mine"),
            ("--fanouts=10,5", "--fanouts=10,5"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("~/x", "'~/x'"),
            ("$HOME;`id`*", "'$HOME;`id`*'"),
            ("Größe", "'Größe'"),
            ("a\nb'\\\x1b[2J", r"$'a\x0ab\'\\\x1b[2J'"),
        ] {
            assert_eq!(word(text), quoted);
            let said = Command::new("bash").args(["-c", &format!("printf %s {quoted}")]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), text);
        }
        let bytes = OsStr::from_bytes(b"a\xff");
        assert_eq!(word(bytes), r"$'a\xff'");
        assert_eq!(path(Path::new("-x")), "./-x");
    }
}
