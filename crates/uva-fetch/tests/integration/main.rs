//! What `fetch` makes of a directory (`file://`). S3 is in `tests/s3.rs`, since it needs a server.

mod directory;
