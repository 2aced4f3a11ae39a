//! The part of Thrift's compact protocol needed for page headers and the schema's depth.

use std::io::{self, Read};

/// The nesting limit of structures.
const DEEPEST: u32 = 32;

/// Reads one message.
pub(super) struct Thrift<R> {
    input: R,
    depth: u32,
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<R: Read> Thrift<R> {
    pub(super) fn new(input: R) -> Thrift<R> {
        Thrift { input, depth: 0 }
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(malformed("an integer is longer than 64 bits"))
    }

    fn zigzag(&mut self) -> io::Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// An integer of 16, 32 or 64 bits, from a field of type `kind`.
    pub(super) fn integer(&mut self, kind: u8) -> io::Result<i64> {
        if (4..=6).contains(&kind) { self.zigzag() } else { Err(malformed("an integer has another type")) }
    }

    /// A boolean, which is part of its field's type.
    pub(super) fn boolean(&mut self, kind: u8) -> io::Result<bool> {
        if matches!(kind, 1 | 2) { Ok(kind == 1) } else { Err(malformed("a truth value has another type")) }
    }

    /// Calls `work` with each field of a structure: its number and its type. `work` reads or skips the value.
    pub(super) fn each_field(
        &mut self,
        mut work: impl FnMut(&mut Self, i64, u8) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.depth == DEEPEST {
            return Err(malformed("its structures lie too deep in each other"));
        }
        self.depth += 1;
        let mut id = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                break;
            }
            id = match head >> 4 {
                0 => self.zigzag()?,
                delta => id.saturating_add(delta.into()),
            };
            work(self, id, head & 0xf)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// The fields of a structure, from a field of type `kind`.
    pub(super) fn structure(
        &mut self,
        kind: u8,
        work: impl FnMut(&mut Self, i64, u8) -> io::Result<()>,
    ) -> io::Result<()> {
        if kind == 12 { self.each_field(work) } else { Err(malformed("a structure has another type")) }
    }

    /// The number of elements of a list and their type, from a field of type `kind`.
    pub(super) fn list(&mut self, kind: u8) -> io::Result<(u64, u8)> {
        if !matches!(kind, 9 | 10) {
            return Err(malformed("a list has another type"));
        }
        let head = self.byte()?;
        let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Ok((length, head & 0xf))
    }

    /// Skips a value of type `kind`.
    pub(super) fn skip(&mut self, kind: u8) -> io::Result<()> {
        self.skip_value(kind, false)
    }

    /// Booleans are part of a field's type, but take a byte each in lists.
    fn skip_value(&mut self, kind: u8, in_list: bool) -> io::Result<()> {
        match kind {
            1 | 2 if !in_list => Ok(()),
            1..=3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.pass(8),
            8 => {
                let length = self.varint()?;
                self.pass(length)
            }
            9 | 10 => {
                let (length, element) = self.list(kind)?;
                self.skip_all(length, &[element])
            }
            11 => {
                let length = self.varint()?;
                let kinds = if length > 0 { self.byte()? } else { 0 };
                self.skip_all(length, &[kinds >> 4, kinds & 0xf])
            }
            12 => self.each_field(|thrift, _, kind| thrift.skip(kind)),
            _ => Err(malformed("a value has an unknown type")),
        }
    }

    fn skip_all(&mut self, times: u64, kinds: &[u8]) -> io::Result<()> {
        if self.depth == DEEPEST {
            return Err(malformed("its lists lie too deep in each other"));
        }
        self.depth += 1;
        // Every element takes at least one byte, so a false length ends with the input.
        for _ in 0..times {
            for &kind in kinds {
                self.skip_value(kind, true)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn pass(&mut self, bytes: u64) -> io::Result<()> {
        let passed = io::copy(&mut (&mut self.input).take(bytes), &mut io::sink())?;
        if passed == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
