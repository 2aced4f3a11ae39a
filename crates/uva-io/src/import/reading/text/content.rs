//! Detection of a file's content by its first bytes.

/// The number of bytes needed to detect the content.
pub(super) const ENOUGH: usize = TAR.0 + TAR.1.len();

/// Offset and value of the magic of a tar archive.
const TAR: (usize, &[u8]) = (257, b"ustar");

/// The content of a file, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Empty,
    Text,
    Gzip,
    Zstd,
    /// Not text, and not read; with its name.
    Other(&'static str),
}

/// First bytes of files other than text.
const OTHERS: [(&[u8], &str); 25] = [
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ\0", "an xz file"),
    (b"\x5d\0\0", "an lzma file"),
    (b"LZIP\x01", "an lzip file"),
    (b"\x04\x22\x4d\x18", "an LZ4 file"),
    (b"\xff\x06\0\0sNaPpY", "a snappy file"),
    (b"\x1f\x9d", "a file of compress (.Z)"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\xff\xfe\0\0", "UTF-32 text"),
    (b"\0\0\xfe\xff", "UTF-32 text"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
    (b"\x93NUMPY", "a .npy array"),
    (b"PAR1\x15", "a Parquet file"),
    (b"ARROW1\0\0", "an Arrow file"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x80\x02", "a pickle"),
    (b"\x80\x03", "a pickle"),
    (b"\x80\x04\x95", "a pickle"),
    (b"\x80\x05\x95", "a pickle"),
    (b"%PDF-", "a PDF file"),
];

impl Content {
    /// Detects the content of a file that begins with `start`.
    pub(super) fn of(start: &[u8]) -> Content {
        // Skippable frames have sixteen magic numbers.
        let skipped = matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
        match start {
            [] => Content::Empty,
            [0x1f, 0x8b, ..] => Content::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Content::Zstd,
            _ if skipped => Content::Zstd,
            _ if start.get(TAR.0..).is_some_and(|rest| rest.starts_with(TAR.1)) => {
                Content::Other("a tar archive")
            }
            _ => {
                let other = OTHERS.iter().find(|(magic, _)| start.starts_with(magic));
                // bzip2's magic are letters, and a digit: a word may begin with them. So the block's magic is checked
                // too.
                let other = other.filter(|(magic, _)| {
                    *magic != b"BZh" || matches!(start, [_, _, _, b'1'..=b'9', 0x31 | 0x17, 0x41 | 0x72, ..])
                });
                other.map_or(Content::Text, |&(_, what)| Content::Other(what))
            }
        }
    }

    /// The format's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Content::Gzip => "gzip",
            Content::Zstd => "Zstandard",
            Content::Empty | Content::Text | Content::Other(_) => "text",
        }
    }

    /// For messages: `a gzip file`.
    pub(super) fn described(self) -> &'static str {
        match self {
            Content::Empty => "an empty file",
            Content::Text => "plain text or another format",
            Content::Gzip => "a gzip file",
            Content::Zstd => "a Zstandard file",
            Content::Other(what) => what,
        }
    }
}
