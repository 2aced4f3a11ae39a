//! A message between two ranks: its header, and its division into pieces.

use std::fmt;
use std::ops::Range;

/// Bytes of a header.
pub(super) const HEADER: usize = 32;

const MAGIC: u64 = u64::from_le_bytes(*b"uva-exch");

/// The kind of call that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    Counts = 1,
    AllToAll = 2,
}

impl fmt::Display for MessageKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Counts => "counts",
            Self::AllToAll => "all_to_all",
        })
    }
}

/// The header of a message, at the beginning of its first piece: four 64-bit words, little-endian, of which the first is
/// the magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The number of the sender's call, from 1.
    pub call: u64,
    pub kind: MessageKind,
    /// The number of bytes after the header.
    pub bytes: u64,
}

impl Message {
    /// Writes the header to [`HEADER`] bytes.
    pub fn write(self, header: &mut [u8]) {
        let words = [MAGIC, self.call, self.kind as u64, self.bytes];
        for (bytes, word) in header.chunks_exact_mut(size_of::<u64>()).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads the header from [`HEADER`] bytes; `None` if they are not a header.
    pub fn read(header: &[u8]) -> Option<Self> {
        let (words, _) = header.as_chunks();
        let word = |index: usize| words.get(index).map(|&bytes| u64::from_le_bytes(bytes));
        if word(0)? != MAGIC {
            return None;
        }
        let kind = [MessageKind::Counts, MessageKind::AllToAll]
            .into_iter()
            .find(|&kind| Some(kind as u64) == word(2))?;
        Some(Self { call: word(1)?, kind, bytes: word(3)? })
    }

    /// The text that follows "rank 1 does not agree on the call", if the message differs from the expected one.
    pub fn differs_from(self, expected: Self) -> Option<String> {
        if (self.call, self.kind) != (expected.call, expected.kind) {
            let (call, kind, here, expected) = (self.call, self.kind, expected.call, expected.kind);
            return Some(format!(
                ": it is at its call {call}, `{kind}`, and this rank at call {here}, `{expected}`"
            ));
        }
        let (found, expected) = (self.bytes, expected.bytes);
        (found != expected).then(|| format!(": it sends {found} bytes, but this rank expects {expected}"))
    }
}

/// The division of a message into pieces. The first piece also has the header, and always exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    bytes: usize,
    first: usize,
    each: usize,
}

impl Pieces {
    /// Divides `bytes` bytes into pieces of `piece_bytes`, which must exceed [`HEADER`].
    pub fn new(bytes: usize, piece_bytes: usize) -> Self {
        Self { bytes, first: bytes.min(piece_bytes - HEADER), each: piece_bytes }
    }

    /// The number of pieces, at least one.
    pub fn count(self) -> usize {
        1 + (self.bytes - self.first).div_ceil(self.each)
    }

    /// The bytes of a piece.
    pub fn range(self, piece: usize) -> Range<usize> {
        match piece.checked_sub(1) {
            None => 0..self.first,
            Some(before) => {
                let start = self.first + before * self.each;
                start..self.bytes.min(start + self.each)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_every_byte_once_and_none_is_larger_than_a_piece() {
        for piece_bytes in [33, 64, 100] {
            for bytes in 0..500 {
                let pieces = Pieces::new(bytes, piece_bytes);
                let mut end = 0;
                for piece in 0..pieces.count() {
                    let range = pieces.range(piece);
                    let head = if piece == 0 { HEADER } else { 0 };
                    assert_eq!(range.start, end, "piece {piece} of {bytes} bytes");
                    assert!(head + range.len() <= piece_bytes, "piece {piece} of {bytes} bytes");
                    assert!(piece == 0 || !range.is_empty(), "piece {piece} of {bytes} bytes");
                    end = range.end;
                }
                assert_eq!(end, bytes);
            }
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_other_bytes_are_none() {
        let message = Message { call: 3, kind: MessageKind::AllToAll, bytes: 1 << 40 };
        let mut header = [0; HEADER];
        assert_eq!(Message::read(&header), None);
        message.write(&mut header);
        assert_eq!(Message::read(&header), Some(message));
        assert_eq!(Message::read(&header[..HEADER - 1]), None);
        header[16] = 3;
        assert_eq!(Message::read(&header), None);
    }

    #[test]
    fn messages_of_other_calls_and_sizes_are_distinguished() {
        let expected = Message { call: 3, kind: MessageKind::AllToAll, bytes: 8 };
        assert_eq!(expected.differs_from(expected), None);
        let other = Message { call: 3, kind: MessageKind::Counts, bytes: 8 }.differs_from(expected).unwrap();
        assert_eq!(other, ": it is at its call 3, `counts`, and this rank at call 3, `all_to_all`");
        let other = Message { bytes: 16, ..expected }.differs_from(expected).unwrap();
        assert_eq!(other, ": it sends 16 bytes, but this rank expects 8");
    }
}
