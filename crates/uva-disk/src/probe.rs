//! Which reader a file gets.

use std::path::Path;

use crate::error::DiskError;
use crate::extent::Extent;
use crate::kind::ReaderKind;
use crate::mapped::Mapped;
use crate::open_file::OpenFile;
use crate::plan::Planner;
use crate::pread::Pread;
use crate::reader::RangeReader;
use crate::seam::Seam;
use crate::shape::TableShape;
use crate::uring::Uring;

/// A reader that has read the file's beginning, and why those before it in the order were not taken, a line each.
pub(crate) struct Probed {
    pub reader: Box<dyn RangeReader>,
    pub file: OpenFile,
    pub passed_over: Vec<String>,
}

/// Opens the file for the rows of a table: by this reader, or by the first that works.
pub(crate) fn probe(
    path: &Path,
    shape: &TableShape,
    wanted: Option<ReaderKind>,
    seam: Seam,
) -> Result<Probed, DiskError> {
    let mut passed_over = Vec::new();
    let direct = OpenFile::new(path, wanted != Some(ReaderKind::Mmap), seam.clone())?;
    let (length, needed) = (direct.length, shape.end());
    if length < needed {
        return Err(DiskError::TooShort { file: path.to_owned(), length, needed });
    }
    for kind in ReaderKind::ALL.into_iter().filter(|&kind| wanted.is_none_or(|wanted| wanted == kind)) {
        // Reads of mapped pages pass through the page cache anyway: by another open file, without O_DIRECT.
        let file = match kind {
            ReaderKind::Mmap if direct.cached.is_none() => OpenFile::new(path, false, seam.clone())?,
            _ => direct.clone(),
        };
        match reader(kind, file.clone(), shape) {
            Ok(reader) => return Ok(Probed { reader, file, passed_over }),
            Err(reason) => passed_over.push(format!("{kind} is not used: {reason}")),
        }
    }
    let reason = match wanted {
        // The line names the reader, as the error does.
        Some(kind) => passed_over.remove(0).replacen(&format!("{kind} is not used: "), "", 1),
        None => passed_over.join("; "),
    };
    Err(DiskError::Refused { file: path.to_owned(), reader: wanted.unwrap_or(ReaderKind::Mmap), reason })
}

/// A reader of this kind that reads the file's first block, if it has one.
fn reader(kind: ReaderKind, file: OpenFile, shape: &TableShape) -> Result<Box<dyn RangeReader>, String> {
    let (length, alignment) = (file.length, file.alignment);
    let longest = Planner::longest(shape, alignment);
    let mut reader: Box<dyn RangeReader> = match kind {
        ReaderKind::Uring => Box::new(Uring::new(file, longest)?),
        ReaderKind::Pread => Box::new(Pread::new(file, longest)?),
        ReaderKind::Mmap => Box::new(Mapped::new(file, longest)?),
    };
    if length > 0 {
        let needed = alignment.min(usize::try_from(length).unwrap_or(alignment));
        let first = Extent { offset: 0, length: alignment, needed };
        reader.read(&[first], &mut |_, _| {}).map_err(|error| error.to_string())?;
    }
    Ok(reader)
}
