//! Streamed arrays: `.npy` files, and the `.npy` members of an `.npz`, which is a zip archive. Only the requested part
//! is in memory, and two streams can read one member side by side.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use uva_files::quote::{listed, message};
use uva_graph::GraphError;
use uva_graph::npy::{Header, NpyType};
use uva_mem::files::open_regular;

use super::features::FeatureSource;
use super::nodes::NodeRange;
use super::values;

/// Bytes read from a file at a time.
const BUFFER_BYTES: usize = 1 << 18;

/// The maximum number of bytes read for a header: its own limit, and the preamble.
const MOST_HEADER: usize = (64 << 10) + 12;

#[derive(Debug, thiserror::Error)]
enum StreamProblem {
    #[error("not a whole zip archive: {0}")]
    Archive(String),
    #[error("{0}")]
    Compressed(io::Error),
    #[error("the member is encrypted, or compressed in another way than numpy does ({0})")]
    Method(String),
    #[error("the array ends {missing} bytes early, at byte {at}: the file is truncated")]
    Truncated { missing: u64, at: u64 },
    #[error("{extra} bytes follow the last element: the header and the content disagree")]
    Trailing { extra: u64 },
    #[error("the content's checksum is {found:08x}, but the archive has {said:08x}: the file is damaged")]
    CheckSum { found: u32, said: u32 },
    #[error("the element type is {found}, it has to be {wanted}")]
    Type { found: NpyType, wanted: String },
    #[error("the shape is {found:?}, it has to be {wanted}")]
    Shape { found: Vec<usize>, wanted: String },
    #[error("entry {position} at offset {at} is {value}, too large for a signed 64-bit integer")]
    TooLarge { position: u64, at: u64, value: u64 },
    #[error("entry {position} at offset {at}, {end}, is {value}, {nodes}")]
    Id { position: u64, at: u64, end: String, value: i64, nodes: NodeRange },
    #[error("entry {position} at offset {at} is {value}, {wanted}")]
    Entry { position: u64, at: u64, value: String, wanted: String },
    #[error("it has no array {wanted}: it has {found}")]
    NoMember { wanted: String, found: String },
}

/// The arrays of an `.npz`.
#[derive(Debug)]
pub(crate) struct Archive {
    path: PathBuf,
    members: BTreeMap<String, Member>,
    /// Names of the members that were opened.
    read: RefCell<BTreeSet<String>>,
}

#[derive(Debug, Clone)]
struct Member {
    header: u64,
    compressed: u64,
    bytes: u64,
    crc: u32,
    /// `None` if it is neither stored nor deflated.
    deflated: Option<bool>,
    method: String,
}

impl Archive {
    /// Reads the archive's directory.
    pub(crate) fn open(path: &Path) -> Result<Archive, GraphError> {
        let file = open_regular(path).map_err(GraphError::io(path, "open"))?;
        let broken = |error: zip::result::ZipError| match error {
            zip::result::ZipError::Io(error) if !is_of_content(&error) => GraphError::io(path, "read")(error),
            error => GraphError::invalid(path, StreamProblem::Archive(message(&error.to_string()))),
        };
        let archive = zip::ZipArchive::new(BufReader::new(file)).map_err(broken)?;
        let mut members = BTreeMap::new();
        for index in 0..archive.len() {
            let entry = archive.by_index_data(index).map_err(broken)?;
            let name = entry.name().map_err(broken)?.into_owned();
            let deflated = match entry.compression() {
                _ if entry.encrypted() => None,
                zip::CompressionMethod::Stored => Some(false),
                zip::CompressionMethod::Deflated => Some(true),
                _ => None,
            };
            let member = Member {
                header: entry.header_start(),
                compressed: entry.compressed_size(),
                bytes: entry.size(),
                crc: entry.crc32(),
                deflated,
                method: entry.compression().to_string(),
            };
            let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
            members.insert(name, member);
        }
        Ok(Archive { path: path.to_owned(), members, read: RefCell::default() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all arrays, in their order as text.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// The members that were not opened.
    pub(crate) fn unread(&self) -> Vec<String> {
        let read = self.read.borrow();
        self.members.keys().filter(|name| !read.contains(*name)).cloned().collect()
    }

    /// A member's size in the archive.
    pub(crate) fn compressed_bytes(&self, name: &str) -> u64 {
        self.members.get(name).map_or(0, |member| member.compressed)
    }

    /// The first existing one of `names`.
    pub(crate) fn first(&self, names: &[&str]) -> Result<Option<ArrayStream>, GraphError> {
        names.iter().find(|name| self.has(name)).map(|name| self.array(name)).transpose()
    }

    /// The array called `name`.
    ///
    /// # Errors
    /// If there is none, or it is not a supported `.npy` file.
    pub(crate) fn array(&self, name: &str) -> Result<ArrayStream, GraphError> {
        let Some(member) = self.members.get(name) else {
            let found = listed(self.members.keys());
            let problem = StreamProblem::NoMember { wanted: name.to_owned(), found };
            return Err(GraphError::invalid(&self.path, problem));
        };
        self.read.borrow_mut().insert(name.to_owned());
        let place = self.path.join(format!("{name}.npy"));
        let Some(deflated) = member.deflated else {
            return Err(GraphError::invalid(&place, StreamProblem::Method(member.method.clone())));
        };
        let io = || GraphError::io(&self.path, "read");
        let mut file = open_regular(&self.path).map_err(GraphError::io(&self.path, "open"))?;
        // The name and the extra fields before the content may be longer here than in the archive's directory.
        let mut local = [0; 30];
        file.seek(SeekFrom::Start(member.header)).map_err(io())?;
        let whole = file.read_exact(&mut local).is_ok() && local.starts_with(b"PK\x03\x04");
        if !whole {
            let problem = StreamProblem::Archive(format!("no member begins at byte {}", member.header));
            return Err(GraphError::invalid(&place, problem));
        }
        let length = |at: usize| u64::from(u16::from_le_bytes([local[at], local[at + 1]]));
        let start = member.header + 30 + length(26) + length(28);
        file.seek(SeekFrom::Start(start)).map_err(io())?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, file.take(member.compressed));
        let content =
            if deflated { Content::Deflated(DeflateDecoder::new(reader)) } else { Content::Stored(reader) };
        ArrayStream::new(place, content, member.bytes, Some(member.crc))
    }
}

/// Whether a read error is due to the content, not the system.
pub(crate) fn is_of_content(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof
    )
}

enum Content {
    Plain(BufReader<File>),
    Stored(BufReader<io::Take<File>>),
    Deflated(DeflateDecoder<BufReader<io::Take<File>>>),
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Content::Plain(file) => file.read(buffer),
            Content::Stored(file) => file.read(buffer),
            Content::Deflated(decoder) => decoder.read(buffer),
        }
    }
}

/// One array, read from its first element to its last.
pub(crate) struct ArrayStream {
    place: PathBuf,
    /// Boxed, because a decompressor's state would make every holder large.
    content: Box<Content>,
    header: Header,
    /// The content's known size in bytes.
    bytes: u64,
    /// Number of elements read or skipped.
    position: u64,
    /// The checksum of everything read; `None` if something was skipped, or there is nothing to compare with.
    crc: Option<(Crc, u32)>,
    buffer: Vec<u8>,
}

impl ArrayStream {
    /// The `.npy` file at `path`.
    pub(crate) fn open(path: &Path) -> Result<ArrayStream, GraphError> {
        let file = open_regular(path).map_err(GraphError::io(path, "open"))?;
        let bytes = file.metadata().map_err(GraphError::io(path, "look at"))?.len();
        let content = Content::Plain(BufReader::with_capacity(BUFFER_BYTES, file));
        ArrayStream::new(path.to_owned(), content, bytes, None)
    }

    /// Little-endian elements without a header, as written by numpy's memmap.
    pub(crate) fn open_raw(path: &Path, kind: NpyType, shape: Vec<usize>) -> Result<ArrayStream, GraphError> {
        let mut file = open_regular(path).map_err(GraphError::io(path, "open"))?;
        let bytes = file.metadata().map_err(GraphError::io(path, "look at"))?.len();
        file.rewind().map_err(GraphError::io(path, "read"))?;
        let header = Header { kind, shape, data_offset: 0 };
        let stream = ArrayStream {
            place: path.to_owned(),
            content: Box::new(Content::Plain(BufReader::with_capacity(BUFFER_BYTES, file))),
            header,
            bytes,
            position: 0,
            crc: None,
            buffer: Vec::new(),
        };
        stream.check_size()?;
        Ok(stream)
    }

    fn new(
        place: PathBuf,
        mut content: Content,
        bytes: u64,
        crc: Option<u32>,
    ) -> Result<ArrayStream, GraphError> {
        // Grown until the header is complete; each attempt reports the missing bytes.
        let mut start = vec![0; 10];
        let mut filled = 0;
        let header = loop {
            let read = read_up_to(&mut content, &mut start[filled..]).map_err(|e| failed(&place, e))?;
            filled += read;
            match Header::parse(&start[..filled]) {
                Ok(header) => break header,
                Err(problem) => match problem.bytes_needed() {
                    Some(needed) if needed > filled && filled == start.len() && needed <= MOST_HEADER => {
                        start.resize(needed, 0);
                    }
                    _ => return Err(GraphError::invalid(&place, problem)),
                },
            }
        };
        let crc = crc.map(|said| {
            let mut crc = Crc::new();
            crc.update(&start[..filled]);
            (crc, said)
        });
        let stream = ArrayStream {
            place,
            content: Box::new(content),
            header,
            bytes,
            position: 0,
            crc,
            buffer: Vec::new(),
        };
        stream.check_size()?;
        Ok(stream)
    }

    fn check_size(&self) -> Result<(), GraphError> {
        let end = (self.header.data_offset + self.header.data_bytes()) as u64;
        if self.bytes < end {
            let problem = StreamProblem::Truncated { missing: end - self.bytes, at: self.bytes };
            return Err(GraphError::invalid(&self.place, problem));
        }
        if self.bytes > end {
            let problem = StreamProblem::Trailing { extra: self.bytes - end };
            return Err(GraphError::invalid(&self.place, problem));
        }
        Ok(())
    }

    /// The file, or archive and member, for messages.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    pub(crate) fn kind(&self) -> NpyType {
        self.header.kind
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.header.shape
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> u64 {
        self.header.elements() as u64
    }

    /// The number of elements read or skipped.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Skips the next `elements` elements, all of which must exist.
    pub(crate) fn skip(&mut self, elements: u64) -> Result<(), GraphError> {
        let bytes = elements * self.kind().bytes() as u64;
        self.crc = None;
        match &mut *self.content {
            Content::Plain(file) => {
                file.seek_relative(bytes as i64).map_err(GraphError::io(&self.place, "read"))?;
            }
            content => {
                let skipped = io::copy(&mut content.take(bytes), &mut io::sink())
                    .map_err(|e| failed(&self.place, e))?;
                if skipped < bytes {
                    return Err(self.truncated(skipped, bytes));
                }
            }
        }
        self.position += elements;
        Ok(())
    }

    /// The next `elements` elements as bytes, or fewer at the end; none after the end.
    pub(crate) fn bytes(&mut self, elements: usize) -> Result<&[u8], GraphError> {
        let elements = (elements as u64).min(self.len() - self.position);
        let bytes = elements as usize * self.kind().bytes();
        self.buffer.resize(bytes, 0);
        let read = read_up_to(&mut self.content, &mut self.buffer).map_err(|e| failed(&self.place, e))?;
        if read < bytes {
            return Err(self.truncated(read as u64, bytes as u64));
        }
        self.position += elements;
        if let Some((crc, said)) = &mut self.crc {
            crc.update(&self.buffer);
            if self.position == self.header.elements() as u64 && crc.sum() != *said {
                let problem = StreamProblem::CheckSum { found: crc.sum(), said: *said };
                return Err(GraphError::invalid(&self.place, problem));
            }
        }
        Ok(&self.buffer)
    }

    fn truncated(&self, read: u64, wanted: u64) -> GraphError {
        let at = self.offset(self.position) + read;
        GraphError::invalid(&self.place, StreamProblem::Truncated { missing: wanted - read, at })
    }

    /// The next `elements` elements, or fewer at the end, of any integer type.
    pub(crate) fn integers(&mut self, elements: usize) -> Result<Vec<i64>, GraphError> {
        if !values::is_integer(self.kind()) {
            return Err(self.wrong_type("an integer type"));
        }
        let (kind, first) = (self.kind(), self.position);
        values::integers(kind, self.bytes(elements)?).map_err(|values::TooLarge { position, value }| {
            let position = first + position as u64;
            let problem = StreamProblem::TooLarge { position, at: self.offset(position), value };
            GraphError::invalid(&self.place, problem)
        })
    }

    /// All remaining elements, of any integer type.
    pub(crate) fn all_integers(&mut self) -> Result<Vec<i64>, GraphError> {
        // Allocated step by step: the header may claim any size.
        let mut all = Vec::new();
        loop {
            let more = self.integers(1 << 20)?;
            if more.is_empty() {
                return Ok(all);
            }
            all.extend(more);
        }
    }

    /// The next `elements` elements, or fewer at the end, of any type, as doubles.
    pub(crate) fn floats(&mut self, elements: usize) -> Result<Vec<f64>, GraphError> {
        let kind = self.kind();
        Ok(values::floats(kind, self.bytes(elements)?))
    }

    /// Checks that `ids`, the elements read last, are node ids. `end` describes a position of the array.
    pub(crate) fn check_ids(
        &self,
        ids: &[i64],
        nodes: &NodeRange,
        end: impl Fn(u64) -> String,
    ) -> Result<(), GraphError> {
        self.check_each_id(ids, |_| nodes, end)
    }

    /// As [`check_ids`](Self::check_ids), with the nodes that each position has ids of.
    pub(crate) fn check_each_id<'n>(
        &self,
        ids: &[i64],
        nodes: impl Fn(u64) -> &'n NodeRange,
        end: impl Fn(u64) -> String,
    ) -> Result<(), GraphError> {
        let first = self.position.saturating_sub(ids.len() as u64);
        let is_wrong = |(position, id): (u64, &i64)| !nodes(position).has(*id);
        if (first..).zip(ids).fold(false, |any, entry| any | is_wrong(entry))
            && let Some(wrong) = (first..).zip(ids).position(is_wrong)
        {
            let position = first + wrong as u64;
            let problem = StreamProblem::Id {
                position,
                at: self.offset(position),
                end: end(position),
                value: ids[wrong],
                nodes: nodes(position).clone(),
            };
            return Err(GraphError::invalid(&self.place, problem));
        }
        Ok(())
    }

    /// The source of its elements, for messages about features.
    pub(crate) fn as_features(&self) -> FeatureSource {
        FeatureSource { place: self.place.clone(), data_offset: Some(self.header.data_offset as u64) }
    }

    /// The error about the element that is `back` elements before the position.
    pub(crate) fn wrong_entry(
        &self,
        back: usize,
        value: impl ToString,
        wanted: impl Into<String>,
    ) -> GraphError {
        let position = self.position.saturating_sub(back as u64);
        let problem = StreamProblem::Entry {
            position,
            at: self.offset(position),
            value: value.to_string(),
            wanted: wanted.into(),
        };
        GraphError::invalid(&self.place, problem)
    }

    fn offset(&self, position: u64) -> u64 {
        self.header.data_offset as u64 + position * self.kind().bytes() as u64
    }

    /// The error that lists the accepted types.
    pub(crate) fn wrong_type(&self, wanted: impl Into<String>) -> GraphError {
        let problem = StreamProblem::Type { found: self.kind(), wanted: wanted.into() };
        GraphError::invalid(&self.place, problem)
    }

    /// The error that describes the accepted shape.
    pub(crate) fn wrong_shape(&self, wanted: impl Into<String>) -> GraphError {
        let problem = StreamProblem::Shape { found: self.shape().to_vec(), wanted: wanted.into() };
        GraphError::invalid(&self.place, problem)
    }
}

fn read_up_to(content: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match content.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn failed(place: &Path, error: io::Error) -> GraphError {
    if is_of_content(&error) {
        GraphError::invalid(place, StreamProblem::Compressed(error))
    } else {
        GraphError::io(place, "read")(error)
    }
}
