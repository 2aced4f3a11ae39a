//! The options of `uvatrain fetch`.

use std::path::PathBuf;

use clap::Args;

/// The options of `uvatrain fetch`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain fetch s3://bucket/products-ranges /local/products-ranges --only graph --only part-3
  uvatrain fetch file:///shared/products data/products

Keys, region and endpoint of S3 come from the variables AWS_*: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION,
AWS_ENDPOINT_URL; AWS_SKIP_SIGNATURE=true reads a public bucket, AWS_ALLOW_HTTP=true allows an endpoint without TLS. OUT
appears only when all of it is there. An object that changes meanwhile is an error.")]
pub struct FetchFlags {
    /// What to fetch: s3://BUCKET/PREFIX, or file:///DIRECTORY
    #[arg(value_name = "URL")]
    pub url: String,

    /// The directory to write; it must not exist
    #[arg(value_name = "OUT")]
    pub out: PathBuf,

    /// Fetch this subdirectory, and of others nothing; the files at the top always come. May be given several times
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,

    /// Print the result as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}
