//! A range of an object, which goes to the same range of a file.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt;
use object_store::{GetOptions, GetResultPayload, ObjectMeta, ObjectStore};
use uva_graph::GraphError;
use uva_mem::files::open_own;

use crate::error::Problem;
use crate::listing::Object;

/// Bytes of a piece. Large enough that a request's latency is little of its time, small enough that the last pieces of a
/// large file are still fetched side by side.
pub(crate) const PIECE_BYTES: u64 = 16 << 20;

/// A range of an object.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    object: &'a Object,
    /// The file, which is there.
    path: PathBuf,
    range: Range<u64>,
}

/// The pieces that together are the whole object, whose file lies in `directory`.
pub(crate) fn pieces_of<'a>(object: &'a Object, directory: &Path) -> impl Iterator<Item = Piece<'a>> {
    let path = directory.join(&object.name);
    let size = object.meta.size;
    // An object of no bytes is one piece: it may have got some since it was listed.
    (0..size.div_ceil(PIECE_BYTES).max(1)).map(move |number| {
        let first = number * PIECE_BYTES;
        Piece { object, path: path.clone(), range: first..size.min(first + PIECE_BYTES) }
    })
}

impl Piece<'_> {
    /// Downloads the piece and writes it. Returns its bytes.
    pub(crate) async fn fetch(self, store: &dyn ObjectStore) -> Result<u64, Problem> {
        let Object { name, meta } = self.object;
        let failed = |source| Problem::of_object(name, source);
        let is_whole = self.range == (0..meta.size);
        let options = GetOptions::new()
            .with_range((!is_whole).then_some(self.range.clone()))
            .with_if_match(meta.e_tag.as_deref());
        let result = store.get_opts(&meta.location, options).await.map_err(failed)?;
        if let Some(what) = difference(meta, &result.meta) {
            return Err(Problem::Changed { name: name.clone(), what });
        }
        let file = open_own(&self.path).map_err(GraphError::io(&self.path, "open"))?;
        let mut end = self.range.start;
        match result.payload {
            // The library would make a task of every 8 KiB of a file.
            GetResultPayload::File(..) => {
                let bytes = result.bytes().await.map_err(failed)?;
                self.write(&file, &bytes, &mut end)?;
            }
            GetResultPayload::Stream(mut stream) => {
                while let Some(bytes) = stream.try_next().await.map_err(failed)? {
                    self.write(&file, &bytes, &mut end)?;
                }
            }
        }
        if end != self.range.end {
            return Err(self.length(end));
        }
        Ok(end - self.range.start)
    }

    /// Writes at `end` and moves it.
    fn write(&self, file: &File, bytes: &[u8], end: &mut u64) -> Result<(), Problem> {
        let behind = *end + bytes.len() as u64;
        if behind > self.range.end {
            return Err(self.length(behind));
        }
        file.write_all_at(bytes, *end).map_err(GraphError::io(&self.path, "write"))?;
        *end = behind;
        Ok(())
    }

    fn length(&self, end: u64) -> Problem {
        Problem::Length {
            name: self.object.name.clone(),
            got: end - self.range.start,
            wanted: self.range.end - self.range.start,
        }
    }
}

/// What differs between an object as it was listed and as it is now.
fn difference(listed: &ObjectMeta, now: &ObjectMeta) -> Option<String> {
    if listed.size != now.size {
        return Some(format!("{} bytes, and {} when it was listed", now.size, listed.size));
    }
    match (&listed.e_tag, &now.e_tag) {
        (Some(listed), Some(now)) => {
            // Some stores leave out the quotes in one of the two.
            let same = listed.trim_matches('"') == now.trim_matches('"');
            (!same).then(|| format!("tag {now}, and {listed} when it was listed"))
        }
        // Answers have whole seconds, listings may have less.
        _ => (listed.last_modified.timestamp() != now.last_modified.timestamp()).then(|| {
            format!("written at {}, and at {} when it was listed", now.last_modified, listed.last_modified)
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn meta(size: u64, e_tag: Option<&str>, milliseconds: u64) -> ObjectMeta {
        ObjectMeta {
            location: "a".into(),
            last_modified: (SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds)).into(),
            size,
            e_tag: e_tag.map(str::to_owned),
            version: None,
        }
    }

    #[test]
    fn pieces_are_the_whole_object_without_gaps() {
        for (name, size, count) in [
            ("none", 0, 1),
            ("one", 1, 1),
            ("just", PIECE_BYTES, 1),
            ("more", PIECE_BYTES + 1, 2),
            ("many", 5 * PIECE_BYTES, 5),
        ] {
            let object = Object { name: name.to_owned(), meta: meta(size, None, 0) };
            let ranges: Vec<Range<u64>> =
                pieces_of(&object, Path::new("out")).map(|piece| piece.range).collect();
            assert_eq!(ranges.len(), count);
            let end = ranges.iter().fold(0, |end, range| {
                assert_eq!(range.start, end);
                assert!(range.end - range.start <= PIECE_BYTES);
                range.end
            });
            assert_eq!(end, size);
        }
    }

    #[test]
    fn a_changed_object_differs_in_size_tag_or_time() {
        let listed = meta(5, Some("\"a\""), 1500);
        assert_eq!(difference(&listed, &meta(5, Some("a"), 9000)), None);
        assert!(difference(&listed, &meta(6, Some("\"a\""), 1500)).unwrap().starts_with("6 bytes, and 5"));
        assert!(difference(&listed, &meta(5, Some("\"b\""), 1500)).unwrap().starts_with("tag \"b\""));
        let untagged = meta(5, None, 1500);
        assert_eq!(difference(&untagged, &meta(5, None, 1000)), None);
        assert!(difference(&untagged, &meta(5, None, 2000)).unwrap().starts_with("written at"));
    }
}
