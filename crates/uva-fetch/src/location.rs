//! What a URL names: a store, and a prefix in it.

use std::path;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;

use crate::error::Problem;

/// A store, and the prefix below which everything is fetched.
#[derive(Debug)]
pub(crate) struct Location {
    pub(crate) store: Box<dyn ObjectStore>,
    pub(crate) prefix: Path,
}

impl Location {
    /// Takes the URL apart, as it stands: `%20` is no space in it. A request that fails is repeated within `retry_for`.
    pub(crate) fn of(url: &str, retry_for: Duration) -> Result<Location, Problem> {
        match (url.strip_prefix("file://"), url.strip_prefix("s3://")) {
            (Some(directory), _) => of_directory(directory),
            (_, Some(rest)) => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                let prefix = Path::parse(prefix).map_err(|source| Problem::NamesInTheStore { source })?;
                of_bucket(bucket, prefix, retry_for)
            }
            _ => Err(Problem::Url),
        }
    }
}

#[cfg(feature = "s3")]
fn of_bucket(bucket: &str, prefix: Path, retry_for: Duration) -> Result<Location, Problem> {
    Ok(Location { store: crate::s3::store(bucket, retry_for)?, prefix })
}

#[cfg(not(feature = "s3"))]
fn of_bucket(_: &str, _: Path, _: Duration) -> Result<Location, Problem> {
    Err(Problem::WithoutS3)
}

fn of_directory(directory: &str) -> Result<Location, Problem> {
    if !directory.starts_with('/') {
        return Err(Problem::Url);
    }
    if !path::Path::new(directory).is_dir() {
        return Err(Problem::NoDirectory);
    }
    let store = LocalFileSystem::new_with_prefix(directory);
    let store = store.map_err(|source| Problem::of_answer("cannot open it".to_owned(), &source))?;
    Ok(Location { store: Box::new(store), prefix: Path::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        Location::of(url, Duration::ZERO).unwrap_err().at(url).to_string()
    }

    #[test]
    fn a_url_of_another_kind_is_refused_with_those_that_are_known() {
        for url in ["products", "/data/products", "https://example.com/a", "file://data", "s3:/bucket", ""] {
            let error = refused(url);
            assert_eq!(
                error,
                format!("{url}: a URL of an object store is s3://BUCKET/PREFIX or file:///DIRECTORY")
            );
        }
    }

    #[cfg(not(feature = "s3"))]
    #[test]
    fn a_bucket_is_refused_where_the_feature_was_left_out_with_its_name() {
        assert!(
            refused("s3://bucket/products")
                .ends_with(": S3 was left out of this program: build it with the feature s3")
        );
    }

    #[test]
    fn a_prefix_with_an_empty_or_upward_component_is_refused() {
        assert!(refused("s3://bucket/a//b").contains("fetch another prefix"));
        assert!(refused("s3://bucket/../b").contains("fetch another prefix"));
    }

    #[test]
    fn a_directory_that_is_not_there_is_refused() {
        assert_eq!(refused("file:///not/there"), "file:///not/there: there is no such directory");
    }
}
