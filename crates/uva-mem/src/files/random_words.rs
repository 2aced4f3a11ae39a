//! Random words, which keep apart the names of files that several processes make at once.

use std::io;

/// Whether this is a random word as it appears in file names of this program: 16 lower-case hex digits.
pub fn is_word(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A word from the system's generator.
///
/// # Errors
/// Where the system has none.
pub fn random_word() -> io::Result<u64> {
    let mut word = [0; 8];
    let got = rustix::rand::getrandom(&mut word, rustix::rand::GetRandomFlags::empty())?;
    if got != word.len() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the system gave too few random bytes"));
    }
    Ok(u64::from_ne_bytes(word))
}
