//! A file opened for reads past the page cache, if the file system supports them.

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags, fadvise, fcntl_setfl, fstat, statx};

use crate::error::DiskError;
use crate::files::progress::ReadFailure;
use crate::files::seam::Seam;
use crate::shape::TableShape;

/// The alignment if the system does not report one, and the unit in which rows are merged: a page.
pub(crate) const PAGE: usize = 4096;

/// A regular file, open for reading.
#[derive(Clone)]
pub(crate) struct OpenFile {
    pub file: Arc<File>,
    pub path: PathBuf,
    /// The length in bytes.
    pub length: u64,
    /// The alignment of offsets, lengths and buffers of reads.
    pub alignment: usize,
    /// `None` if reads bypass the page cache (`O_DIRECT`); otherwise the reason why they do not.
    pub cached: Option<String>,
    pub seam: Seam,
}

impl OpenFile {
    /// Opens the file at `path`, with `O_DIRECT` if supported and requested.
    pub fn new(path: &Path, direct: bool, seam: Seam) -> Result<Self, DiskError> {
        let refused =
            |error: std::io::Error| DiskError::Open { file: path.to_owned(), reason: error.to_string() };
        let file = uva_mem::files::open_regular(path).map_err(refused)?;
        let length = fstat(&file).map_err(|error| refused(error.into()))?.st_size as u64;
        let (alignment, cached) =
            match if direct { go_direct(&file, &seam) } else { Err("not requested".into()) } {
                Ok(alignment) => (alignment, None),
                Err(reason) => {
                    // Clears NONBLOCK, with which the file was opened: io_uring completes reads of such a file with
                    // EAGAIN.
                    fcntl_setfl(&file, OFlags::empty()).map_err(|error| refused(error.into()))?;
                    // A hint: read-ahead is useless for random reads.
                    let _ = fadvise(&file, 0, None, Advice::Random);
                    (PAGE, Some(reason))
                }
            };
        let file = Arc::new(file);
        let seam = if cached.is_some() { seam.past_direct() } else { seam };
        Ok(Self { file, path: path.to_owned(), length, alignment, cached, seam })
    }

    /// Checks that the file contains the whole table.
    pub fn check_length(&self, shape: &TableShape) -> Result<(), DiskError> {
        let (length, needed) = (self.length, shape.end());
        if length < needed {
            return Err(DiskError::TooShort { file: self.path.clone(), length, needed });
        }
        Ok(())
    }
}

/// The files of a reader, at least one.
#[derive(Clone)]
pub(crate) struct OpenFiles(Arc<[OpenFile]>);

impl OpenFiles {
    /// Opens the files at these paths, with `O_DIRECT` if supported and requested, for all of them or none.
    pub fn new<'p>(
        paths: impl Iterator<Item = &'p Path> + Clone,
        direct: bool,
        seam: &Seam,
    ) -> Result<Self, DiskError> {
        let opened = |direct| paths.clone().map(move |path| OpenFile::new(path, direct, seam.clone()));
        let files: Vec<OpenFile> = opened(direct).collect::<Result<_, _>>()?;
        let cached = files.iter().find_map(|file| file.cached.clone());
        let is_mixed = cached.is_some() && files.iter().any(|file| file.cached.is_none());
        if !is_mixed {
            return Ok(Self(files.into()));
        }
        Self::through_cache(paths, cached.unwrap_or_default(), seam)
    }

    /// Opens the files without `O_DIRECT`, for this reason.
    pub fn through_cache<'p>(
        paths: impl Iterator<Item = &'p Path>,
        reason: String,
        seam: &Seam,
    ) -> Result<Self, DiskError> {
        let opened = paths.map(|path| {
            let file = OpenFile::new(path, false, seam.clone())?;
            Ok(OpenFile { cached: Some(reason.clone()), ..file })
        });
        Ok(Self(opened.collect::<Result<Vec<_>, _>>()?.into()))
    }

    /// The alignment of offsets, lengths and buffers of reads, for all files.
    pub fn alignment(&self) -> usize {
        self.iter().map(|file| file.alignment).max().unwrap_or(PAGE)
    }

    /// Why reads do not bypass the page cache; `None` if they do.
    pub fn cached(&self) -> Option<&str> {
        self.iter().find_map(|file| file.cached.as_deref())
    }

    /// A description of whether reads bypass the page cache.
    pub fn way(&self) -> String {
        match self.cached() {
            None => format!("O_DIRECT in blocks of {} bytes", self.alignment()),
            Some(reason) => format!("through the page cache, without O_DIRECT: {reason}"),
        }
    }

    /// Converts a failed read to an error with the file's name.
    pub fn failed(&self, failure: ReadFailure) -> DiskError {
        let ReadFailure { file, offset, length, reason } = failure;
        DiskError::Read { file: self[file].path.clone(), offset, length, reason }
    }
}

impl Deref for OpenFiles {
    type Target = [OpenFile];

    fn deref(&self) -> &[OpenFile] {
        &self.0
    }
}

/// Makes reads of the file bypass the page cache, and returns their alignment.
fn go_direct(file: &File, seam: &Seam) -> Result<usize, String> {
    let refused = || "the file system does not support it".to_owned();
    let alignment = match statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(found) if found.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            if found.stx_dio_offset_align == 0 {
                return Err(refused());
            }
            found.stx_dio_offset_align.max(found.stx_dio_mem_align) as usize
        }
        // Kernels before 6.1 do not report it.
        _ => PAGE,
    };
    // Buffers are page-aligned.
    if !alignment.is_power_of_two() || alignment > PAGE {
        return Err(format!("the file system requires an alignment of {alignment} bytes"));
    }
    // This clears NONBLOCK, too.
    seam.pass_direct(fcntl_setfl(file, OFlags::DIRECT)).map_err(|_| refused())?;
    Ok(alignment)
}
