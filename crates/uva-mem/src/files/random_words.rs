//! Random words that make file names of concurrent processes distinct.

use std::io;

/// Whether `text` is a random word of this program's file names: 16 lower-case hex digits.
pub fn is_word(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A word from the system's generator.
///
/// # Errors
/// If the system has no random generator.
pub fn random_word() -> io::Result<u64> {
    let mut word = [0; 8];
    let got = rustix::rand::getrandom(&mut word, rustix::rand::GetRandomFlags::empty())?;
    if got != word.len() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the system gave too few random bytes"));
    }
    Ok(u64::from_ne_bytes(word))
}
