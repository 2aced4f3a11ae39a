//! A disk cache of compiled kernels, so that a second run starts without compiling.
//!
//! An entry is one file, named by its key, with its length and a checksum. Content that differs from what was stored
//! counts as a miss: a truncated file, a flipped bit, a foreign file. Entries are written under a temporary name and
//! renamed, so readers see a complete entry or none. If two processes write one at the same time, the later one wins
//! with the same bytes. An unwritable folder costs only the next compilation.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use uva_mem::files::{Replacement, is_word, read_regular, target_of_partial};

/// The location of compiled kernels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CacheKind {
    /// `kernels` in the user's cache folder for this program: `$UVATRAIN_CACHE`, else `$XDG_CACHE_HOME/uvatrain`, else
    /// `~/.cache/uvatrain`. No cache if none of these is known.
    #[default]
    User,
    /// The caller's own folder.
    Folder(PathBuf),
    /// No cache.
    Off,
}

impl CacheKind {
    /// The folder, if there is one; it need not exist yet.
    pub fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::User => user_cache_folder().map(|folder| folder.join("kernels")),
            Self::Folder(folder) => Some(folder.clone()),
            Self::Off => None,
        }
    }
}

/// The user's cache folder for this program; it need not exist.
pub fn user_cache_folder() -> Option<PathBuf> {
    folder_from(|name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute()))
}

fn folder_from(absolute: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    absolute("UVATRAIN_CACHE").or_else(|| {
        let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(cache.join("uvatrain"))
    })
}

/// The dependencies of an entry, as one name. Boundaries between parts count: ("ab", "c") is not ("a", "bc").
///
/// No protection against forgery: an attacker who can write into a user's cache folder can replace the program too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CubinKey(u128);

impl CubinKey {
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        Self(digest(|hasher| parts.hash(hasher)))
    }
}

/// Computes 128 bits: two hashes with different initial values. A collision only causes one compilation.
fn digest(feed: impl Fn(&mut DefaultHasher)) -> u128 {
    let half = |which: u8| {
        let mut hasher = DefaultHasher::new();
        which.hash(&mut hasher);
        feed(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

const MAGIC: &[u8; 8] = b"uvakern1";
/// Magic, key, length of the image, checksum of key and image.
const HEADER: usize = 8 + 16 + 8 + 16;
/// Maximum size of an image; larger files are not read.
const LARGEST: u64 = 256 << 20;
/// Age after which half-written files of killed processes are removed.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// A folder of entries.
#[derive(Debug, Clone)]
pub(crate) struct CubinCache {
    folder: PathBuf,
}

impl CubinCache {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The file of an entry; `label` is for human readers.
    pub(crate) fn path(&self, label: &str, key: CubinKey) -> PathBuf {
        self.folder.join(format!("{label}-{:032x}.kernels", key.0))
    }

    /// The stored image, if it exists and is intact.
    pub(crate) fn load(&self, label: &str, key: CubinKey) -> Option<Vec<u8>> {
        let path = self.path(label, key);
        let mut bytes = read_regular(&path, LARGEST).ok()?;
        let (header, image) = bytes.split_at_checked(HEADER)?;
        (header == Self::header(key, image)).then(|| bytes.split_off(HEADER))
    }

    /// Stores an image.
    ///
    /// # Errors
    /// The file system's error; no partly written file remains.
    pub(crate) fn store(&self, label: &str, key: CubinKey, image: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        self.remove_stale();
        let mut entry = Replacement::of(&self.path(label, key), 0o666)?;
        entry.file().write_all(&Self::header(key, image))?;
        entry.file().write_all(image)?;
        entry.commit()
    }

    fn header(key: CubinKey, image: &[u8]) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..24].copy_from_slice(&key.0.to_le_bytes());
        header[24..32].copy_from_slice(&(image.len() as u64).to_le_bytes());
        let checksum = digest(|hasher| {
            hasher.write(&key.0.to_le_bytes());
            hasher.write(image);
        });
        header[32..].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    /// Removes leftovers of killed processes. Failure is harmless.
    fn remove_stale(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let is_ours = target_of_partial(&entry.file_name()).is_some_and(is_entry);
            if is_ours && modified_long_ago(&entry).unwrap_or(false) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether this can be the name of an entry: `LABEL-<32 hex digits>.kernels`.
fn is_entry(name: &str) -> bool {
    let key = name.strip_suffix(".kernels").and_then(|name| name.rsplit_once('-'));
    key.and_then(|(_, key)| key.split_at_checked(16)).is_some_and(|(high, low)| is_word(high) && is_word(low))
}

fn modified_long_ago(entry: &fs::DirEntry) -> Option<bool> {
    Some(entry.metadata().ok()?.modified().ok()?.elapsed().ok()? > STALE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Barrier;

    fn cache() -> (tempfile::TempDir, CubinCache, CubinKey) {
        let folder = tempfile::tempdir().unwrap();
        let cache = CubinCache::new(folder.path().join("not/yet/there"));
        (folder, cache, CubinKey::of(&[b"source", b"sm_90"]))
    }

    #[test]
    fn what_was_stored_is_loaded() {
        let (_folder, cache, key) = cache();
        assert_eq!(cache.load("gather", key), None);
        cache.store("gather", key, b"an image").unwrap();
        assert_eq!(cache.load("gather", key).unwrap(), b"an image");
    }

    #[test]
    fn a_key_depends_on_every_part_and_on_where_parts_end() {
        let keys = [
            CubinKey::of(&[b"ab", b"c"]),
            CubinKey::of(&[b"a", b"bc"]),
            CubinKey::of(&[b"ab", b"d"]),
            CubinKey::of(&[b"ab"]),
            CubinKey::of(&[b"ab", b"c", b""]),
        ];
        for (i, one) in keys.iter().enumerate() {
            for other in &keys[..i] {
                assert_ne!(one, other);
            }
        }
    }

    #[test]
    fn a_file_with_any_byte_changed_is_not_found() {
        let (_folder, cache, key) = cache();
        cache.store("gather", key, b"an image").unwrap();
        let path = cache.path("gather", key);
        let whole = fs::read(&path).unwrap();
        for position in 0..whole.len() {
            let mut broken = whole.clone();
            broken[position] ^= 0x10;
            fs::write(&path, &broken).unwrap();
            assert_eq!(cache.load("gather", key), None, "byte {position}");
        }
    }

    #[test]
    fn a_file_cut_short_or_grown_is_not_found() {
        let (_folder, cache, key) = cache();
        cache.store("gather", key, b"an image").unwrap();
        let path = cache.path("gather", key);
        let mut whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(cache.load("gather", key), None, "{length} bytes");
        }
        whole.push(0);
        fs::write(&path, &whole).unwrap();
        assert_eq!(cache.load("gather", key), None);
    }

    #[test]
    fn an_entry_planted_in_the_cache_is_neither_read_nor_written_through() {
        let (folder, cache, key) = cache();
        let victim = folder.path().join("victim");
        fs::write(&victim, b"mine").unwrap();
        cache.store("gather", key, b"an image").unwrap();
        for target in [std::path::Path::new("/dev/zero"), &victim] {
            let path = cache.path("gather", key);
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(target, &path).unwrap();
            assert_eq!(cache.load("gather", key), None);
            cache.store("gather", key, b"an image").unwrap();
            assert_eq!(cache.load("gather", key).unwrap(), b"an image");
        }
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
    }

    #[test]
    fn a_file_of_another_key_is_not_found() {
        let (_folder, cache, key) = cache();
        let other = CubinKey::of(&[b"source", b"sm_80"]);
        cache.store("gather", other, b"an image").unwrap();
        fs::rename(cache.path("gather", other), cache.path("gather", key)).unwrap();
        assert_eq!(cache.load("gather", key), None);
    }

    #[test]
    fn a_broken_file_is_replaced() {
        let (_folder, cache, key) = cache();
        cache.store("gather", key, b"an image").unwrap();
        fs::write(cache.path("gather", key), b"").unwrap();
        cache.store("gather", key, b"an image").unwrap();
        assert_eq!(cache.load("gather", key).unwrap(), b"an image");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_that_leaves_nothing() {
        let (folder, cache, key) = cache();
        // A file where the folder should be stops root too; permissions only stop other users.
        fs::write(folder.path().join("not"), b"").unwrap();
        assert!(cache.store("gather", key, b"an image").is_err());
        assert_eq!(cache.load("gather", key), None);

        let closed = folder.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
        let cache = CubinCache::new(closed.clone());
        if cache.store("gather", key, b"an image").is_err() {
            assert_eq!(fs::read_dir(&closed).unwrap().count(), 0);
        }
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_failed_rename_leaves_no_temporary_file() {
        let (_folder, cache, key) = cache();
        // A folder of the entry's name cannot be replaced by a file.
        fs::create_dir_all(cache.path("gather", key)).unwrap();
        assert!(cache.store("gather", key, b"an image").is_err());
        assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 1);
        assert_eq!(cache.load("gather", key), None);
    }

    #[test]
    fn concurrent_readers_always_see_a_complete_file() {
        let (_folder, cache, key) = cache();
        let image = vec![7u8; 1 << 18];
        cache.store("gather", key, &image).unwrap();
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..20 {
                        cache.store("gather", key, &image).unwrap();
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..50 {
                        assert!(cache.load("gather", key).is_some_and(|found| found == image));
                    }
                });
            }
        });
        assert_eq!(cache.load("gather", key).unwrap(), image);
        assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 1);
    }

    #[test]
    fn leftovers_of_killed_processes_are_removed_once_they_are_old() {
        let (_folder, cache, key) = cache();
        fs::create_dir_all(&cache.folder).unwrap();
        let entry = cache.path("gather", key);
        let name = entry.file_name().unwrap().to_str().unwrap();
        let old = cache.folder.join(format!(".{name}.0123456789abcdef.partial"));
        let new = cache.folder.join(format!(".{name}.0123456789abcdee.partial"));
        // Files of other programs, which may have similar names and age.
        let foreign = [
            cache.folder.join("film.part"),
            cache.folder.join(".notes.0123456789abcdef.partial"),
            cache.folder.join(format!(".{name}.partial")),
        ];
        fs::write(&new, b"").unwrap();
        for path in foreign.iter().chain([&old]) {
            let file = fs::File::create(path).unwrap();
            file.set_modified(std::time::SystemTime::now() - 2 * STALE).unwrap();
        }
        cache.store("gather", key, b"an image").unwrap();
        assert!(!old.exists());
        assert!(new.exists());
        assert!(foreign.iter().all(|path| path.exists()));
    }

    #[test]
    fn the_users_folder_follows_the_environment() {
        let folder = |set: &[(&str, &str)]| {
            folder_from(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        let (own, cache, home) = (("UVATRAIN_CACHE", "/u"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h"));
        assert_eq!(folder(&[own, cache, home]), Some("/u".into()));
        assert_eq!(folder(&[cache, home]), Some("/x/uvatrain".into()));
        assert_eq!(folder(&[home]), Some("/h/.cache/uvatrain".into()));
        assert_eq!(folder(&[]), None);
    }
}
