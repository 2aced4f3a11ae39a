//! Names of objects as paths of files: whoever writes to a bucket must not be able to name a file outside of the directory.

use crate::error::Problem;

/// Takes a name of components with slashes between them, all of which can be names of files.
pub(crate) fn check(name: &str) -> Result<(), Problem> {
    let fault = match name {
        "" => Some("it is empty"),
        _ if name.starts_with('/') => Some("it begins with a slash"),
        _ if name.contains('\\') => Some("it has a backslash"),
        _ if name.contains(|character: char| character.is_ascii_control()) => {
            Some("it has a control character")
        }
        _ if name.split('/').any(str::is_empty) => Some("nothing is between two slashes, or behind the last"),
        _ if name.split('/').any(|component| component == "." || component == "..") => {
            Some("a component is . or ..")
        }
        _ => None,
    };
    match fault {
        None => Ok(()),
        Some(fault) => Err(Problem::Name { name: name.to_owned(), fault }),
    }
}

/// The names of all directories above `name`, outermost first.
pub(crate) fn directories(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(end, _)| &name[..end])
}

/// Whether `name` is `directory` or lies below it.
pub(crate) fn is_within(name: &str, directory: &str) -> bool {
    name.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_below_the_directory_are_taken() {
        for name in ["feat.npy", "part-3/feat.npy", "a/b/c", "..a/b..", "with space", "ä.npy"] {
            check(name).unwrap();
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused_with_what_is_wrong() {
        for (name, fault) in [
            ("", "empty"),
            ("/etc/passwd", "begins with a slash"),
            ("../feat.npy", "a component is . or .."),
            ("part-0/../../feat.npy", "a component is . or .."),
            ("part-0/.", "a component is . or .."),
            ("part-0//feat.npy", "between two slashes"),
            ("part-0/", "behind the last"),
            ("part-0\\feat.npy", "backslash"),
            ("feat\n.npy", "control character"),
        ] {
            let error = check(name).unwrap_err().to_string();
            assert!(error.contains(fault) && error.contains("cannot become a file"), "{error}");
        }
    }

    #[test]
    fn a_directory_holds_what_begins_with_its_name_and_a_slash() {
        assert!(is_within("part-1/feat.npy", "part-1") && is_within("part-1", "part-1"));
        assert!(!is_within("part-10/feat.npy", "part-1") && !is_within("part", "part-1"));
        assert_eq!(directories("a/b/c").collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(directories("a").count(), 0);
    }
}
