//! The header of a `.npy` file, versions 1 and 2.
//!
//! The header is a Python literal. A small parser reads exactly that literal and evaluates nothing. Layout:
//! `\x93NUMPY`, major, minor, header length (u16 in version 1, u32 in version 2, little-endian), then `{'descr': '<f4',
//! 'fortran_order': False, 'shape': (3, 4), }`, padded with spaces, closed by a newline.

use std::fmt;

use uva_files::quote::shown;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// numpy itself refuses headers longer than 10,000 characters. Only structured types come close, and they are rejected
/// anyway.
const LONGEST_HEADER: usize = 64 * 1024;

/// More axes than numpy allows.
const MOST_AXES: usize = 64;

/// The element type of a little-endian array, as `descr` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NpyType {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
}

impl NpyType {
    /// Bytes per element.
    pub fn bytes(self) -> usize {
        match self {
            NpyType::Bool | NpyType::I8 | NpyType::U8 => 1,
            NpyType::I16 | NpyType::U16 | NpyType::F16 => 2,
            NpyType::I32 | NpyType::U32 | NpyType::F32 => 4,
            NpyType::I64 | NpyType::U64 | NpyType::F64 => 8,
        }
    }

    /// numpy's name for the type.
    pub fn name(self) -> &'static str {
        match self {
            NpyType::Bool => "bool",
            NpyType::I8 => "int8",
            NpyType::U8 => "uint8",
            NpyType::I16 => "int16",
            NpyType::U16 => "uint16",
            NpyType::I32 => "int32",
            NpyType::U32 => "uint32",
            NpyType::I64 => "int64",
            NpyType::U64 => "uint64",
            NpyType::F16 => "float16",
            NpyType::F32 => "float32",
            NpyType::F64 => "float64",
        }
    }

    /// The type's `descr` in a file.
    pub fn descr(self) -> &'static str {
        match self {
            NpyType::Bool => "|b1",
            NpyType::I8 => "|i1",
            NpyType::U8 => "|u1",
            NpyType::I16 => "<i2",
            NpyType::U16 => "<u2",
            NpyType::I32 => "<i4",
            NpyType::U32 => "<u4",
            NpyType::I64 => "<i8",
            NpyType::U64 => "<u8",
            NpyType::F16 => "<f2",
            NpyType::F32 => "<f4",
            NpyType::F64 => "<f8",
        }
    }

    fn from_descr(descr: &str) -> Result<NpyType, HeaderProblem> {
        let unsupported = || HeaderProblem::UnsupportedType { descr: shown(descr) };
        let Some(order @ ('<' | '>' | '|' | '=')) = descr.chars().next() else {
            return Err(unsupported());
        };
        let kind = match &descr[1..] {
            "b1" => NpyType::Bool,
            "i1" => NpyType::I8,
            "u1" => NpyType::U8,
            "i2" => NpyType::I16,
            "u2" => NpyType::U16,
            "i4" => NpyType::I32,
            "u4" => NpyType::U32,
            "i8" => NpyType::I64,
            "u8" => NpyType::U64,
            "f2" => NpyType::F16,
            "f4" => NpyType::F32,
            "f8" => NpyType::F64,
            _ => return Err(unsupported()),
        };
        match order {
            '>' if kind.bytes() > 1 => Err(HeaderProblem::BigEndian { descr: descr.to_owned() }),
            '|' | '=' if kind.bytes() > 1 => Err(unsupported()),
            _ => Ok(kind),
        }
    }
}

impl fmt::Display for NpyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Faults of a header. Offsets count from the start of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum HeaderProblem {
    #[error(
        "the file ends at byte {length}, inside the .npy header, which has {needed} bytes: it is truncated"
    )]
    Truncated { length: usize, needed: usize },
    #[error("not a .npy file: it starts with {found:02x?} instead of \\x93NUMPY")]
    Magic { found: Vec<u8> },
    #[error(".npy version {major}.{minor} at offset 6 is not supported: save it as version 1.0 or 2.0")]
    Version { major: u8, minor: u8 },
    #[error("the .npy header is {length} bytes long, at most {LONGEST_HEADER} are accepted")]
    TooLong { length: usize },
    #[error("the .npy header is malformed at offset {offset}: expected {expected}")]
    Syntax { offset: usize, expected: &'static str },
    #[error("the .npy header lacks the key '{key}'")]
    MissingKey { key: &'static str },
    #[error("the .npy header has the unknown key '{key}' at offset {offset}")]
    UnknownKey { key: String, offset: usize },
    #[error("the .npy header has the key '{key}' twice, again at offset {offset}")]
    RepeatedKey { key: String, offset: usize },
    #[error("element type '{descr}' is big-endian: save it with array.astype(array.dtype.newbyteorder('<'))")]
    BigEndian { descr: String },
    #[error("element type '{descr}' is not supported")]
    UnsupportedType { descr: String },
    #[error("the array is in Fortran order: save it with numpy.ascontiguousarray(array)")]
    FortranOrder,
    #[error("shape {shape:?} of {bytes}-byte elements overflows the address space")]
    Overflow { shape: Vec<u64>, bytes: usize },
}

impl HeaderProblem {
    /// The minimum length of the header, if more bytes are needed to check it.
    pub fn bytes_needed(&self) -> Option<usize> {
        match self {
            HeaderProblem::Truncated { needed, .. } => Some(*needed),
            _ => None,
        }
    }
}

/// The content of a `.npy` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The element type.
    pub kind: NpyType,
    /// Length of each axis; the last one varies fastest.
    pub shape: Vec<usize>,
    /// Where the elements start, in bytes from the start of the file.
    pub data_offset: usize,
}

impl Header {
    /// Reads the header at the start of `file`, which may be longer than the header.
    pub fn parse(file: &[u8]) -> Result<Header, HeaderProblem> {
        let truncated = |needed| HeaderProblem::Truncated { length: file.len(), needed };
        let magic = file.get(..6).ok_or_else(|| {
            if MAGIC.starts_with(file) {
                truncated(10)
            } else {
                HeaderProblem::Magic { found: file.to_vec() }
            }
        })?;
        if magic != MAGIC {
            return Err(HeaderProblem::Magic { found: magic.to_vec() });
        }
        let &[major, minor] = file.get(6..8).and_then(|v| v.first_chunk()).ok_or_else(|| truncated(10))?;
        let (start, length) = match (major, minor) {
            (1, 0) => {
                let bytes = file.get(8..10).and_then(|v| v.first_chunk()).ok_or_else(|| truncated(10))?;
                (10, usize::from(u16::from_le_bytes(*bytes)))
            }
            (2, 0) => {
                let bytes = file.get(8..12).and_then(|v| v.first_chunk()).ok_or_else(|| truncated(12))?;
                (12, u32::from_le_bytes(*bytes) as usize)
            }
            _ => return Err(HeaderProblem::Version { major, minor }),
        };
        if length > LONGEST_HEADER {
            return Err(HeaderProblem::TooLong { length });
        }
        let data_offset = start + length;
        let text = file.get(start..data_offset).ok_or_else(|| truncated(data_offset))?;
        let literal = Parser { text, at: 0, base: start }.dictionary()?;

        let descr = literal.descr.ok_or(HeaderProblem::MissingKey { key: "descr" })?;
        let fortran = literal.fortran_order.ok_or(HeaderProblem::MissingKey { key: "fortran_order" })?;
        let shape = literal.shape.ok_or(HeaderProblem::MissingKey { key: "shape" })?;
        let kind = NpyType::from_descr(&descr)?;
        // A single axis, or axes of length 1, have the same layout in both orders; numpy marks such arrays C order
        // itself.
        if fortran && shape.iter().filter(|&&axis| axis > 1).count() > 1 {
            return Err(HeaderProblem::FortranOrder);
        }
        let overflow = || HeaderProblem::Overflow { shape: shape.clone(), bytes: kind.bytes() };
        let mut bytes = kind.bytes();
        let mut axes = Vec::with_capacity(shape.len());
        for &axis in &shape {
            let axis = usize::try_from(axis).map_err(|_| overflow())?;
            axes.push(axis);
            bytes = bytes.checked_mul(axis).ok_or_else(overflow)?;
        }
        if bytes.checked_add(data_offset).is_none_or(|end| end > isize::MAX as usize) {
            return Err(overflow());
        }
        Ok(Header { kind, shape: axes, data_offset })
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The size of the elements in bytes. Reading the header has checked that this does not overflow.
    pub fn data_bytes(&self) -> usize {
        self.elements() * self.kind.bytes()
    }
}

#[derive(Default)]
struct Literal {
    descr: Option<String>,
    fortran_order: Option<bool>,
    shape: Option<Vec<u64>>,
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    /// Offset of `text` in the file, for messages.
    base: usize,
}

impl Parser<'_> {
    fn dictionary(mut self) -> Result<Literal, HeaderProblem> {
        let mut literal = Literal::default();
        self.expect(b'{', "'{'")?;
        loop {
            if self.accept(b'}') {
                break;
            }
            let key_offset = self.base + self.at;
            let key = self.string()?;
            self.expect(b':', "':'")?;
            let repeated = match key.as_str() {
                "descr" => literal.descr.replace(self.descr()?).is_some(),
                "fortran_order" => literal.fortran_order.replace(self.boolean()?).is_some(),
                "shape" => literal.shape.replace(self.tuple()?).is_some(),
                _ => return Err(HeaderProblem::UnknownKey { key: shown(key), offset: key_offset }),
            };
            if repeated {
                return Err(HeaderProblem::RepeatedKey { key, offset: key_offset });
            }
            if !self.accept(b',') {
                self.expect(b'}', "',' or '}'")?;
                break;
            }
        }
        self.skip_space();
        if self.at != self.text.len() {
            return Err(self.syntax("only spaces after '}'"));
        }
        Ok(literal)
    }

    /// `'<f4'`, or the list of a structured type, which is named in the refusal.
    fn descr(&mut self) -> Result<String, HeaderProblem> {
        self.skip_space();
        if self.text.get(self.at) == Some(&b'[') {
            let rest = String::from_utf8_lossy(&self.text[self.at..]);
            let shown = rest.split_inclusive(']').next().unwrap_or_default().chars().take(80).collect();
            return Err(HeaderProblem::UnsupportedType { descr: shown });
        }
        self.string()
    }

    fn string(&mut self) -> Result<String, HeaderProblem> {
        self.skip_space();
        let Some(&quote @ (b'\'' | b'"')) = self.text.get(self.at) else {
            return Err(self.syntax("a quoted string"));
        };
        let start = self.at + 1;
        let rest = &self.text[start..];
        let Some(length) = rest.iter().position(|&c| c == quote) else {
            return Err(self.syntax("the end of a quoted string"));
        };
        let inner = &rest[..length];
        // The header of a plain array never contains an escape in a string.
        if inner.iter().any(|&c| c == b'\\' || !(b' '..=b'~').contains(&c)) {
            return Err(self.syntax("a string of plain characters"));
        }
        self.at = start + length + 1;
        Ok(inner.iter().map(|&c| char::from(c)).collect())
    }

    fn boolean(&mut self) -> Result<bool, HeaderProblem> {
        self.skip_space();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.syntax("True or False"))
    }

    fn tuple(&mut self) -> Result<Vec<u64>, HeaderProblem> {
        let mut axes = Vec::new();
        self.expect(b'(', "'('")?;
        loop {
            if self.accept(b')') {
                return Ok(axes);
            }
            if axes.len() == MOST_AXES {
                return Err(self.syntax("at most 64 axes"));
            }
            axes.push(self.integer()?);
            if !self.accept(b',') {
                self.expect(b')', "',' or ')'")?;
                // `(3)` is a number in Python, not a shape.
                return if axes.len() == 1 { Err(self.syntax("',' after the only axis")) } else { Ok(axes) };
            }
        }
    }

    fn integer(&mut self) -> Result<u64, HeaderProblem> {
        self.skip_space();
        let start = self.at;
        let mut value: u64 = 0;
        while let Some(&digit @ b'0'..=b'9') = self.text.get(self.at) {
            value = value
                .checked_mul(10)
                .and_then(|v| v.checked_add(u64::from(digit - b'0')))
                .ok_or_else(|| self.syntax("a length below 2^64"))?;
            self.at += 1;
        }
        if self.at == start {
            return Err(self.syntax("a length"));
        }
        // Python 2 wrote long integers with an L.
        if self.text.get(self.at) == Some(&b'L') {
            self.at += 1;
        }
        Ok(value)
    }

    fn skip_space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn accept(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), HeaderProblem> {
        if self.accept(byte) { Ok(()) } else { Err(self.syntax(expected)) }
    }

    fn syntax(&self, expected: &'static str) -> HeaderProblem {
        HeaderProblem::Syntax { offset: self.base + self.at, expected }
    }
}
