//! A reader of Python pickles that never executes code.
//!
//! A pickle is a program for a small stack machine, and Python's own reader lets it import and call anything it names.
//! This reader builds plain values only: numbers, strings, tuples, lists and dictionaries. A global name from a short
//! list becomes a value that holds only its name. A call of it becomes a record of name and arguments. The caller
//! interprets the record (an array, a sparse matrix). Any other name is an error.
//!
//! It supports protocols 0, 1 and 2, which Python 2 wrote and the Planetoid files use, and those of Python 3 up to 5. Text
//! and bytes are the same here, text as UTF-8. Values live in an arena and
//! refer to each other by index. So shared and even cyclic ones are harmless, and memory stays within a small multiple
//! of the file's length. Code that copies values out of the arena must keep this bound too: [`Pickle::bytes`] is the
//! file's length.

use std::collections::HashMap;

use uva_files::quote::shown;

/// An index into the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ref(u32);

/// A value that a pickle built.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Bytes(Vec<u8>),
    Tuple(Vec<Ref>),
    List(Vec<Ref>),
    /// Entries in the order they were set.
    Dict(Vec<(Ref, Ref)>),
    /// One of [`GLOBALS`]: module and name.
    Global(&'static str, &'static str),
    /// The result of calling a global, and the state it was then given, as a record.
    Object {
        class: Ref,
        arguments: Ref,
        state: Option<Ref>,
        items: Vec<(Ref, Ref)>,
    },
}

/// The names that a pickle may mention. No name is ever resolved.
const GLOBALS: [(&str, &str); 20] = [
    ("scipy.sparse.csr", "csr_matrix"),
    ("scipy.sparse._csr", "csr_matrix"),
    ("scipy.sparse._csr", "csr_array"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    ("_codecs", "encode"),
    ("__builtin__", "bytes"),
    ("builtins", "bytes"),
    ("builtins", "list"),
    ("builtins", "object"),
    ("copyreg", "_reconstructor"),
    ("collections", "OrderedDict"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("collections", "defaultdict"),
    ("__builtin__", "list"),
    ("__builtin__", "object"),
    ("copy_reg", "_reconstructor"),
];

/// Why a pickle was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PickleProblem {
    #[error("the pickle ends at byte {offset}, inside an instruction: it is truncated")]
    Truncated { offset: usize },
    #[error("pickle protocol {version} at offset {offset} is not supported: expected at most 5")]
    Protocol { version: u8, offset: usize },
    #[error("the pickle names {module}.{name} at offset {offset}, which is not a plain value and is refused")]
    Refused { module: String, name: String, offset: usize },
    #[error(
        "pickle instruction 0x{opcode:02x} at offset {offset} is refused: it is not needed for plain values"
    )]
    Opcode { opcode: u8, offset: usize },
    #[error("pickle instruction at offset {offset}: {what}")]
    Malformed { offset: usize, what: &'static str },
}

/// A parsed pickle.
#[derive(Debug)]
pub(crate) struct Pickle {
    values: Vec<Value>,
    root: Ref,
    bytes: usize,
}

impl Pickle {
    /// Runs the pickle's program over plain values.
    pub(crate) fn read(bytes: &[u8]) -> Result<Pickle, PickleProblem> {
        let mut machine = Machine {
            bytes,
            at: 0,
            opcode_at: 0,
            values: Vec::new(),
            stack: Vec::new(),
            memo: HashMap::new(),
        };
        let root = machine.run()?;
        Ok(Pickle { values: machine.values, root, bytes: bytes.len() })
    }

    /// The pickle's length.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn root(&self) -> &Value {
        self.get(self.root)
    }

    pub(crate) fn get(&self, at: Ref) -> &Value {
        &self.values[at.0 as usize]
    }
}

enum Slot {
    Mark,
    Value(Ref),
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the current instruction, for messages.
    opcode_at: usize,
    values: Vec<Value>,
    stack: Vec<Slot>,
    memo: HashMap<u64, Ref>,
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<Ref, PickleProblem> {
        loop {
            self.opcode_at = self.at;
            let opcode = self.byte()?;
            match opcode {
                // PROTO
                0x80 => match self.byte()? {
                    0..=5 => {}
                    version => return Err(PickleProblem::Protocol { version, offset: self.opcode_at }),
                },
                b'.' => return self.pop(),
                b'(' => self.stack.push(Slot::Mark),
                b'0' => {
                    self.stack.pop().ok_or_else(|| self.malformed("the stack is empty"))?;
                }
                b'1' => {
                    self.pop_to_mark()?;
                }
                b'2' => {
                    let top = self.top()?;
                    self.stack.push(Slot::Value(top));
                }

                b'N' => self.push(Value::None)?,
                0x88 => self.push(Value::Bool(true))?,
                0x89 => self.push(Value::Bool(false))?,
                b'I' => self.int_line()?,
                b'L' => {
                    let line = self.line()?;
                    let line = line.strip_suffix(b"L").unwrap_or(line);
                    let value = self.number(line, "a long integer has to fit 64 bits")?;
                    self.push(Value::Int(value))?;
                }
                b'J' => {
                    let value = i32::from_le_bytes(self.array()?);
                    self.push(Value::Int(value.into()))?;
                }
                b'K' => {
                    let value = self.byte()?;
                    self.push(Value::Int(value.into()))?;
                }
                b'M' => {
                    let value = u16::from_le_bytes(self.array()?);
                    self.push(Value::Int(value.into()))?;
                }
                // LONG1 and LONG4
                0x8a => {
                    let length = self.byte()?;
                    self.long(length.into())?;
                }
                0x8b => {
                    let length = u32::from_le_bytes(self.array()?);
                    self.long(length as usize)?;
                }
                b'F' => {
                    let line = self.line()?;
                    let value = self.number(line, "not a floating point number")?;
                    self.push(Value::Float(value))?;
                }
                b'G' => {
                    let value = f64::from_be_bytes(self.array()?);
                    self.push(Value::Float(value))?;
                }

                b'S' => {
                    let line = self.line()?;
                    let bytes = self.unescape(line)?;
                    self.push(Value::Bytes(bytes))?;
                }
                b'V' => {
                    let line = self.line()?;
                    let text = self.unescape_unicode(line)?;
                    self.push(Value::Bytes(text))?;
                }
                // One byte of length: SHORT_BINSTRING, SHORT_BINBYTES, SHORT_BINUNICODE.
                b'U' | b'C' | 0x8c => {
                    let length = self.byte()?;
                    self.string(length.into())?;
                }
                b'T' | b'X' | b'B' => {
                    let length = u32::from_le_bytes(self.array()?);
                    self.string(length as usize)?;
                }
                // Eight: BINUNICODE8, BINBYTES8, BYTEARRAY8.
                0x8d | 0x8e | 0x96 => {
                    let length = u64::from_le_bytes(self.array()?);
                    self.string(usize::try_from(length).unwrap_or(usize::MAX))?;
                }
                // FRAME has the number of bytes that may be read ahead.
                0x95 => {
                    self.array::<8>()?;
                }
                // MEMOIZE
                0x94 => self.remember(self.memo.len() as u64)?,

                b')' => self.push(Value::Tuple(Vec::new()))?,
                b']' => self.push(Value::List(Vec::new()))?,
                b'}' => self.push(Value::Dict(Vec::new()))?,
                b't' => {
                    let items = self.pop_to_mark()?;
                    self.push(Value::Tuple(items))?;
                }
                b'l' => {
                    let items = self.pop_to_mark()?;
                    self.push(Value::List(items))?;
                }
                b'd' => {
                    let entries = self.pairs()?;
                    self.push(Value::Dict(entries))?;
                }
                0x85..=0x87 => {
                    let length = usize::from(opcode - 0x84);
                    let mut items = Vec::with_capacity(length);
                    for _ in 0..length {
                        items.push(self.pop()?);
                    }
                    items.reverse();
                    self.push(Value::Tuple(items))?;
                }
                b'a' => {
                    let item = self.pop()?;
                    self.extend_list(vec![item])?;
                }
                b'e' => {
                    let items = self.pop_to_mark()?;
                    self.extend_list(items)?;
                }
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.set_items(vec![(key, value)])?;
                }
                b'u' => {
                    let entries = self.pairs()?;
                    self.set_items(entries)?;
                }

                b'g' => {
                    let line = self.line()?;
                    let key = self.number(line, "a memo key is not a number")?;
                    self.recall(key)?;
                }
                b'h' => {
                    let key = self.byte()?;
                    self.recall(key.into())?;
                }
                b'j' => {
                    let key = u32::from_le_bytes(self.array()?);
                    self.recall(key.into())?;
                }
                b'p' => {
                    let line = self.line()?;
                    let key = self.number(line, "a memo key is not a number")?;
                    self.remember(key)?;
                }
                b'q' => {
                    let key = self.byte()?;
                    self.remember(key.into())?;
                }
                b'r' => {
                    let key = u32::from_le_bytes(self.array()?);
                    self.remember(key.into())?;
                }

                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.global(module, name)?;
                }
                // STACK_GLOBAL
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    let text = |at: Ref| match &self.values[at.0 as usize] {
                        Value::Bytes(text) => Some(text.clone()),
                        _ => None,
                    };
                    let (Some(module), Some(name)) = (text(module), text(name)) else {
                        return Err(self.malformed("a global name is not text"));
                    };
                    self.global(&module, &name)?;
                }
                // REDUCE and NEWOBJ: the call is recorded, but not executed.
                b'R' | 0x81 => {
                    let (arguments, class) = (self.pop()?, self.pop()?);
                    if !matches!(self.values[class.0 as usize], Value::Global(..)) {
                        return Err(self.malformed("only a global name can be called"));
                    }
                    if !matches!(self.values[arguments.0 as usize], Value::Tuple(_)) {
                        return Err(self.malformed("the arguments of a call are not a tuple"));
                    }
                    self.push(Value::Object { class, arguments, state: None, items: Vec::new() })?;
                }
                b'b' => {
                    let new_state = self.pop()?;
                    let top = self.top()?;
                    match &mut self.values[top.0 as usize] {
                        Value::Object { state, .. } => *state = Some(new_state),
                        _ => return Err(self.malformed("only an object can be given a state")),
                    }
                }
                _ => return Err(PickleProblem::Opcode { opcode, offset: self.opcode_at }),
            }
        }
    }

    fn global(&mut self, module: &[u8], name: &[u8]) -> Result<(), PickleProblem> {
        let known = GLOBALS.iter().find(|known| known.0.as_bytes() == module && known.1.as_bytes() == name);
        match known {
            Some(&(module, name)) => self.push(Value::Global(module, name)),
            None => Err(PickleProblem::Refused {
                module: shown(module),
                name: shown(name),
                offset: self.opcode_at,
            }),
        }
    }

    /// `I`: a decimal number, or `00` and `01` for false and true.
    fn int_line(&mut self) -> Result<(), PickleProblem> {
        let value = match self.line()? {
            b"00" => Value::Bool(false),
            b"01" => Value::Bool(true),
            line => Value::Int(self.number(line, "an integer has to fit 64 bits")?),
        };
        self.push(value)
    }

    /// An integer of `length` bytes: two's complement, little-endian.
    fn long(&mut self, length: usize) -> Result<(), PickleProblem> {
        let bytes = self.take(length)?;
        if bytes.len() > 8 {
            return Err(self.malformed("a long integer has to fit 64 bits"));
        }
        let negative = bytes.last().is_some_and(|&last| last & 0x80 != 0);
        let mut word = [if negative { 0xff } else { 0 }; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        self.push(Value::Int(i64::from_le_bytes(word)))
    }

    fn string(&mut self, length: usize) -> Result<(), PickleProblem> {
        let bytes = self.take(length)?.to_vec();
        self.push(Value::Bytes(bytes))
    }

    /// The byte string of a Python `repr`.
    fn unescape(&self, line: &[u8]) -> Result<Vec<u8>, PickleProblem> {
        let quoted = |quote: u8| line.strip_prefix(&[quote]).and_then(|rest| rest.strip_suffix(&[quote]));
        let inner = quoted(b'\'')
            .or_else(|| quoted(b'"'))
            .ok_or_else(|| self.malformed("a string lacks its quotes"))?;
        let mut out = Vec::with_capacity(inner.len());
        let mut rest = inner.iter().copied();
        while let Some(byte) = rest.next() {
            if byte != b'\\' {
                out.push(byte);
                continue;
            }
            match rest.next() {
                Some(b'n') => out.push(b'\n'),
                Some(b't') => out.push(b'\t'),
                Some(b'r') => out.push(b'\r'),
                Some(same @ (b'\\' | b'\'' | b'"')) => out.push(same),
                Some(b'x') => {
                    let mut digit = || rest.next().and_then(|c| char::from(c).to_digit(16));
                    match (digit(), digit()) {
                        (Some(high), Some(low)) => out.push((high * 16 + low) as u8),
                        _ => return Err(self.malformed("\\x in a string lacks its two digits")),
                    }
                }
                _ => return Err(self.malformed("a string has an unknown escape")),
            }
        }
        Ok(out)
    }

    /// The text of UNICODE as UTF-8: characters up to 255 as bytes, others as `\u` and four digits or `\U` and eight.
    fn unescape_unicode(&self, line: &[u8]) -> Result<Vec<u8>, PickleProblem> {
        let mut text = String::with_capacity(line.len());
        let mut rest = line;
        while let Some((&byte, behind)) = rest.split_first() {
            let digits = match (byte, behind.first()) {
                (b'\\', Some(b'u')) => 4,
                (b'\\', Some(b'U')) => 8,
                _ => {
                    text.push(char::from(byte));
                    rest = behind;
                    continue;
                }
            };
            let code = behind.get(1..=digits).and_then(|digits| std::str::from_utf8(digits).ok());
            let code = code.and_then(|digits| char::from_u32(u32::from_str_radix(digits, 16).ok()?));
            text.push(code.ok_or_else(|| self.malformed("a text has an invalid escape"))?);
            rest = &behind[1 + digits..];
        }
        Ok(text.into_bytes())
    }

    fn extend_list(&mut self, mut new: Vec<Ref>) -> Result<(), PickleProblem> {
        let top = self.top()?;
        match &mut self.values[top.0 as usize] {
            Value::List(items) => {
                items.append(&mut new);
                Ok(())
            }
            _ => Err(self.malformed("only a list can be appended to")),
        }
    }

    fn set_items(&mut self, mut new: Vec<(Ref, Ref)>) -> Result<(), PickleProblem> {
        let top = self.top()?;
        match &mut self.values[top.0 as usize] {
            Value::Dict(entries) | Value::Object { items: entries, .. } => {
                entries.append(&mut new);
                Ok(())
            }
            _ => Err(self.malformed("only a dictionary's items can be set")),
        }
    }

    fn recall(&mut self, key: u64) -> Result<(), PickleProblem> {
        let value = *self.memo.get(&key).ok_or_else(|| self.malformed("the memo has no such entry"))?;
        self.stack.push(Slot::Value(value));
        Ok(())
    }

    fn remember(&mut self, key: u64) -> Result<(), PickleProblem> {
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn push(&mut self, value: Value) -> Result<(), PickleProblem> {
        let at = u32::try_from(self.values.len()).map_err(|_| self.malformed("more than 2^32 values"))?;
        self.values.push(value);
        self.stack.push(Slot::Value(Ref(at)));
        Ok(())
    }

    fn top(&self) -> Result<Ref, PickleProblem> {
        match self.stack.last() {
            Some(&Slot::Value(value)) => Ok(value),
            _ => Err(self.malformed("the stack has no value on top")),
        }
    }

    fn pop(&mut self) -> Result<Ref, PickleProblem> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Ref>, PickleProblem> {
        let mark = self.stack.iter().rposition(|slot| matches!(slot, Slot::Mark));
        let mark = mark.ok_or_else(|| self.malformed("the stack has no mark"))?;
        let values = self.stack.drain(mark..).filter_map(|slot| match slot {
            Slot::Mark => None,
            Slot::Value(value) => Some(value),
        });
        Ok(values.collect())
    }

    fn pairs(&mut self) -> Result<Vec<(Ref, Ref)>, PickleProblem> {
        let flat = self.pop_to_mark()?;
        let (pairs, rest) = flat.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(self.malformed("a key lacks its value"));
        }
        Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
    }

    fn byte(&mut self) -> Result<u8, PickleProblem> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleProblem> {
        let found = self.bytes[self.at..].first_chunk();
        let found = *found.ok_or(PickleProblem::Truncated { offset: self.bytes.len() })?;
        self.at += N;
        Ok(found)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], PickleProblem> {
        let found = self.bytes[self.at..].get(..length);
        let found = found.ok_or(PickleProblem::Truncated { offset: self.bytes.len() })?;
        self.at += length;
        Ok(found)
    }

    /// The bytes up to the next newline, without it.
    fn line(&mut self) -> Result<&'a [u8], PickleProblem> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|&c| c == b'\n');
        let length = length.ok_or(PickleProblem::Truncated { offset: self.bytes.len() })?;
        self.at += length + 1;
        Ok(&rest[..length])
    }

    fn number<T: std::str::FromStr>(&self, line: &[u8], what: &'static str) -> Result<T, PickleProblem> {
        let text = std::str::from_utf8(line).ok();
        text.and_then(|text| text.parse().ok()).ok_or_else(|| self.malformed(what))
    }

    fn malformed(&self, what: &'static str) -> PickleProblem {
        PickleProblem::Malformed { offset: self.opcode_at, what }
    }
}

#[cfg(test)]
mod tests;
