//! Which objects are fetched, and as which files.

use std::collections::BTreeSet;

use futures_util::TryStreamExt;
use object_store::ObjectMeta;

use crate::error::Problem;
use crate::location::Location;
use crate::name;

/// An object that becomes a file.
#[derive(Debug)]
pub(crate) struct Object {
    /// The file's path within the directory, with slashes.
    pub(crate) name: String,
    /// What the listing says of it.
    pub(crate) meta: ObjectMeta,
}

/// Everything that is fetched.
#[derive(Debug)]
pub(crate) struct Listing {
    /// By name.
    pub(crate) objects: Vec<Object>,
    /// Directories that the files lie in, each behind the one around it.
    pub(crate) directories: BTreeSet<String>,
    /// Bytes of all objects.
    pub(crate) bytes: u64,
}

impl Listing {
    /// Asks the store what there is, and chooses what `only` names. Every name in the result has been checked.
    pub(crate) async fn of(location: &Location, only: &[String]) -> Result<Listing, Problem> {
        let prefix = &location.prefix;
        let listed = location.store.list((!prefix.is_root()).then_some(prefix));
        let listed: Vec<ObjectMeta> = listed.try_collect().await.map_err(Problem::of_listing)?;
        let mut objects = Vec::with_capacity(listed.len());
        for meta in listed {
            let name = within(meta.location.as_ref(), prefix.as_ref()).to_owned();
            // The store has an object of no bytes for the directory itself.
            if name.is_empty() && meta.size == 0 {
                continue;
            }
            name::check(&name)?;
            objects.push(Object { name, meta });
        }
        choose(objects, only)
    }
}

/// What is behind the prefix and its slash.
fn within<'a>(location: &'a str, prefix: &str) -> &'a str {
    let rest = location.strip_prefix(prefix).unwrap_or(location);
    rest.strip_prefix('/').unwrap_or(rest)
}

fn choose(mut objects: Vec<Object>, only: &[String]) -> Result<Listing, Problem> {
    let all: BTreeSet<String> =
        objects.iter().flat_map(|object| name::directories(&object.name)).map(str::to_owned).collect();
    // Some tools make an object of no bytes for each directory.
    objects.retain(|object| object.meta.size > 0 || !all.contains(&object.name));
    if let Some(object) = objects.iter().find(|object| all.contains(&object.name)) {
        return Err(Problem::FileAndDirectory { name: object.name.clone() });
    }
    if objects.is_empty() {
        return Err(Problem::Nothing);
    }
    let only: Vec<&str> = only.iter().map(|name| name.strip_suffix('/').unwrap_or(name)).collect();
    for &name in &only {
        name::check(name)?;
        if !objects.iter().any(|object| name::is_within(&object.name, name)) {
            let top: Vec<&str> = all.iter().map(String::as_str).filter(|name| !name.contains('/')).collect();
            let there = if top.is_empty() { "nothing".to_owned() } else { top.join(", ") };
            return Err(Problem::NoSuchPart { only: name.to_owned(), there });
        }
    }
    if !only.is_empty() {
        let is_wanted = |name: &str| only.iter().any(|directory| name::is_within(name, directory));
        objects.retain(|object| !object.name.contains('/') || is_wanted(&object.name));
    }
    objects.sort_by(|a, b| a.name.cmp(&b.name));
    let directories = objects.iter().flat_map(|object| name::directories(&object.name)).map(str::to_owned);
    Ok(Listing {
        directories: directories.collect(),
        bytes: objects.iter().map(|object| object.meta.size).sum(),
        objects,
    })
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::*;

    fn objects(names: &[(&str, u64)]) -> Vec<Object> {
        let object = |&(name, size): &(&str, u64)| Object {
            name: name.to_owned(),
            meta: ObjectMeta {
                location: Path::from(name),
                last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
                size,
                e_tag: None,
                version: None,
            },
        };
        names.iter().map(object).collect()
    }

    fn names(listing: &Listing) -> Vec<&str> {
        listing.objects.iter().map(|object| object.name.as_str()).collect()
    }

    const PARTS: [(&str, u64); 5] = [
        ("partition.json", 5),
        ("part-1/feat.npy", 7),
        ("part-10/feat.npy", 11),
        ("graph/indices.npy", 13),
        ("graph/more/odd.npy", 17),
    ];

    #[test]
    fn without_only_everything_is_chosen() {
        let listing = choose(objects(&PARTS), &[]).unwrap();
        assert_eq!((listing.objects.len(), listing.bytes), (5, 53));
        let directories: Vec<&str> = listing.directories.iter().map(String::as_str).collect();
        assert_eq!(directories, ["graph", "graph/more", "part-1", "part-10"]);
    }

    #[test]
    fn with_only_the_files_at_the_top_and_what_is_named_are_chosen() {
        let listing = choose(objects(&PARTS), &["part-1".to_owned(), "graph/more/".to_owned()]).unwrap();
        assert_eq!(names(&listing), ["graph/more/odd.npy", "part-1/feat.npy", "partition.json"]);
        assert_eq!(listing.bytes, 29);
    }

    #[test]
    fn a_name_that_is_not_there_is_refused_with_those_that_are() {
        let error = choose(objects(&PARTS), &["part-7".to_owned()]).unwrap_err().to_string();
        assert_eq!(
            error,
            "nothing is named part-7 there; beside the files at the top there is graph, part-1, part-10"
        );
        let error = choose(objects(&[("a", 1)]), &["b".to_owned()]).unwrap_err().to_string();
        assert!(error.ends_with("there is nothing"), "{error}");
        assert!(matches!(choose(objects(&PARTS), &["../x".to_owned()]), Err(Problem::Name { .. })));
    }

    #[test]
    fn objects_of_no_bytes_that_stand_for_directories_become_no_files() {
        let listing = choose(objects(&[("graph", 0), ("graph/a", 1), ("empty", 0)]), &[]).unwrap();
        assert_eq!(names(&listing), ["empty", "graph/a"]);
    }

    #[test]
    fn an_object_that_is_also_a_directory_is_refused() {
        let error = choose(objects(&[("graph", 3), ("graph/a", 1)]), &[]).unwrap_err().to_string();
        assert!(error.starts_with("graph is an object and also the directory of others"), "{error}");
    }

    #[test]
    fn nothing_below_a_prefix_is_refused() {
        assert!(matches!(choose(Vec::new(), &[]), Err(Problem::Nothing)));
    }

    #[test]
    fn names_are_what_is_behind_the_prefix() {
        assert_eq!(within("products/part-0/a", "products"), "part-0/a");
        assert_eq!(within("part-0/a", ""), "part-0/a");
        assert_eq!(within("products", "products"), "");
    }
}
