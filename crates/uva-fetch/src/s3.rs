//! A bucket of S3, by the variables that the AWS command line reads too.

use std::env;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};

use crate::error::Problem;

/// Times that the library has too short for pieces of a large file over a slow connection, unless the user sets them: a
/// request may take long, as long as bytes come.
const TIMES: [(&str, ClientConfigKey, &str); 2] = [
    ("AWS_TIMEOUT", ClientConfigKey::Timeout, "30 minutes"),
    ("AWS_READ_TIMEOUT", ClientConfigKey::ReadTimeout, "30 seconds"),
];

/// The store of a bucket. A request that fails is repeated within `retry_for`.
pub(crate) fn store(bucket: &str, retry_for: Duration) -> Result<Box<dyn ObjectStore>, Problem> {
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if bucket.is_empty() || !bucket.bytes().all(may_stand) {
        return Err(Problem::Bucket { bucket: bucket.to_owned() });
    }
    let mut builder = AmazonS3Builder::from_env();
    for (variable, key, time) in TIMES {
        if env::var_os(variable).is_none() {
            builder = builder.with_config(AmazonS3ConfigKey::Client(key), time);
        }
    }
    let retry = RetryConfig { retry_timeout: retry_for, ..RetryConfig::default() };
    let store = builder.with_bucket_name(bucket).with_retry(retry).build();
    Ok(Box::new(store.map_err(|source| Problem::Settings { source })?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bucket: &str) -> String {
        store(bucket, Duration::ZERO).unwrap_err().to_string()
    }

    #[test]
    fn a_bucket_has_a_name_and_no_odd_characters() {
        for bucket in ["", "a b", "a?x=", "bücket"] {
            assert!(refused(bucket).starts_with(&format!("'{bucket}' is no name of a bucket")));
        }
    }
}
