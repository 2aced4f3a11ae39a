//! Selection of the reader of files.

use std::path::Path;

use crate::error::DiskError;
use crate::extent::Extent;
use crate::files::open_file::OpenFiles;
use crate::files::seam::Seam;
use crate::kind::ReaderKind;
use crate::readers::mmap::MappedReader;
use crate::readers::pread::Pread;
use crate::readers::reader::RangeReader;
use crate::readers::uring::Uring;
use crate::shape::TableShape;

/// A reader that has read the beginning of every file, and a line for each earlier reader with the reason why it was
/// not selected.
pub(crate) struct ProbeResult {
    pub reader: Box<dyn RangeReader>,
    pub files: OpenFiles,
    pub passed_over: Vec<String>,
}

/// Opens the files of these tables, at least one: with this reader, or with the first that works. `longest` is the
/// longest extent for reads of that alignment.
pub(crate) fn probe(
    tables: &[(&Path, TableShape)],
    longest: impl Fn(usize) -> usize,
    wanted: Option<ReaderKind>,
    seam: Seam,
) -> Result<ProbeResult, DiskError> {
    let mut passed_over = Vec::new();
    let paths = tables.iter().map(|(path, _)| *path);
    let direct = OpenFiles::new(paths.clone(), wanted != Some(ReaderKind::Mmap), &seam)?;
    for (file, (_, shape)) in direct.iter().zip(tables) {
        file.check_length(shape)?;
    }
    for kind in ReaderKind::ALL.into_iter().filter(|&kind| wanted.is_none_or(|wanted| wanted == kind)) {
        // Reads of mapped pages pass through the page cache anyway: by other open files, without O_DIRECT.
        let files = match kind {
            ReaderKind::Mmap if direct.cached().is_none() => OpenFiles::new(paths.clone(), false, &seam)?,
            _ => direct.clone(),
        };
        let refused = match reader(kind, files.clone(), longest(files.alignment())) {
            Ok(reader) => return Ok(ProbeResult { reader, files, passed_over }),
            Err(refused) => refused,
        };
        // Some file systems accept the flag but fail the reads.
        let reason = match refused {
            Refusal::Read(reason) if kind == ReaderKind::Pread && files.cached().is_none() => {
                let reason = format!("reads with it are refused: {reason}");
                let files = OpenFiles::through_cache(paths.clone(), reason, &seam)?;
                match reader(kind, files.clone(), longest(files.alignment())) {
                    Ok(reader) => return Ok(ProbeResult { reader, files, passed_over }),
                    Err(Refusal::Reader(reason) | Refusal::Read(reason)) => reason,
                }
            }
            Refusal::Reader(reason) | Refusal::Read(reason) => reason,
        };
        passed_over.push(format!("{kind} is not used: {reason}"));
    }
    let reason = match wanted {
        // The line names the reader, as the error does.
        Some(kind) => passed_over.remove(0).replacen(&format!("{kind} is not used: "), "", 1),
        None => passed_over.join("; "),
    };
    let file = direct[0].path.clone();
    Err(DiskError::Refused { file, reader: wanted.unwrap_or(ReaderKind::Mmap), reason })
}

/// Why a reader does not work.
enum Refusal {
    /// The reader cannot be created.
    Reader(String),
    /// A first read failed.
    Read(String),
}

/// Creates a reader of this kind that has read the first block of every file that has one.
fn reader(kind: ReaderKind, files: OpenFiles, longest: usize) -> Result<Box<dyn RangeReader>, Refusal> {
    let lengths: Vec<u64> = files.iter().map(|file| file.length).collect();
    let made: Result<Box<dyn RangeReader>, String> = match kind {
        ReaderKind::Uring => Uring::new(files, longest).map(|reader| Box::new(reader) as _),
        ReaderKind::Pread => Pread::new(files, longest).map(|reader| Box::new(reader) as _),
        ReaderKind::Mmap => MappedReader::new(files, longest).map(|reader| Box::new(reader) as _),
    };
    let mut reader = made.map_err(Refusal::Reader)?;
    let alignment = reader.alignment();
    let first = |(file, &length): (usize, &u64)| {
        let needed = alignment.min(usize::try_from(length).unwrap_or(alignment));
        (needed > 0).then_some(Extent { file, offset: 0, length: alignment, needed })
    };
    let firsts: Vec<Extent> = lengths.iter().enumerate().filter_map(first).collect();
    reader.read(&firsts, &mut |_, _| {}).map_err(|error| Refusal::Read(error.to_string()))?;
    Ok(reader)
}
