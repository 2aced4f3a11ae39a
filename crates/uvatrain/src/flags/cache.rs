//! The options of the caches: `train` and `plan` share them.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use uva_runtime::cache::CachePolicy;
use uva_runtime::planning::{Budget, CacheRequest};

use uva_runtime::spec::ByteSize;

const CACHES: &str = "Caches";

/// What to cache of the graph and of the rows.
#[derive(Args, Clone, Debug, serde::Serialize)]
pub struct CacheFlags {
    /// Memory for caches of neighbour lists and feature rows, on the GPU where one trains: 512MiB, 6GiB, or auto for
    /// what one training batch leaves. Of lists, visits and picks are counted that hit [default: no caches]
    #[arg(long, value_name = "SIZE|auto", help_heading = CACHES)]
    pub gpu_cache: Option<CacheBudget>,

    /// How it is found out which lists and rows are read most [default: presample]
    #[arg(long, value_enum, requires = "gpu_cache", help_heading = CACHES)]
    pub cache_policy: Option<Policy>,

    /// Cache what this file says, as `uvatrain plan` wrote it, instead of finding out anew
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gpu_cache", "cache_policy"], help_heading = CACHES)]
    pub plan: Option<PathBuf>,
}

impl CacheFlags {
    /// The same, as the runtime takes it; `None` without caches.
    pub fn request(&self) -> Option<CacheRequest> {
        if let Some(path) = &self.plan {
            return Some(CacheRequest::Planned(path.clone()));
        }
        let budget = self.gpu_cache?.0;
        Some(CacheRequest::Find {
            budget,
            policy: self.cache_policy.map_or_else(CachePolicy::default, |policy| policy.0),
        })
    }
}

/// `--gpu-cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBudget(pub Budget);

impl FromStr for CacheBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self(Budget::Auto));
        }
        if text.trim_start_matches('0').is_empty() {
            return Err("0 bytes cache nothing: leave --gpu-cache out".to_owned());
        }
        let size: ByteSize = text.parse().map_err(|error| format!("{error}; auto takes what is left"))?;
        Ok(Self(Budget::Bytes(size.bytes())))
    }
}

impl serde::Serialize for CacheBudget {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Budget::Auto => serializer.serialize_str("auto"),
            Budget::Bytes(bytes) => serializer.serialize_u64(bytes),
        }
    }
}

/// `--cache-policy`: the names and their help are the table's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Policy(pub CachePolicy);

impl ValueEnum for Policy {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Policy>> = LazyLock::new(|| CachePolicy::all().map(Policy).collect());
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.help()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        cache: CacheFlags,
    }

    fn parsed(args: &[&str]) -> Result<CacheFlags, clap::Error> {
        Line::try_parse_from([&["x"], args].concat()).map(|line| line.cache)
    }

    #[test]
    fn without_an_option_there_is_no_cache() {
        assert_eq!(parsed(&[]).unwrap().request(), None);
    }

    #[test]
    fn a_budget_is_a_size_or_auto() {
        let budget = |text| parsed(&["--gpu-cache", text]).map(|flags| flags.gpu_cache.unwrap().0);
        assert_eq!(budget("6GiB").unwrap(), Budget::Bytes(6 << 30));
        assert_eq!(budget("auto").unwrap(), Budget::Auto);
        assert!(budget("0").is_err());
        assert!(budget("much").unwrap_err().to_string().contains("auto takes what is left"));
    }

    #[test]
    fn a_policy_alone_caches_nothing_and_is_refused() {
        assert!(parsed(&["--cache-policy", "degree"]).is_err());
        assert!(parsed(&["--cache-policy", "degree", "--gpu-cache", "1GiB"]).is_ok());
    }

    #[test]
    fn a_plan_excludes_what_it_says_itself() {
        assert!(parsed(&["--plan", "plan.json"]).is_ok());
        assert!(parsed(&["--plan", "plan.json", "--gpu-cache", "1GiB"]).is_err());
    }
}
