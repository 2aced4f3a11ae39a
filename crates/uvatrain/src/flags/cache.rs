//! The options of the caches: `train` and `run` share them. They are declared in [`uva_runtime::tune::planning`].

use uva_runtime::tune::planning::CacheOptions;

use super::declared::Declared;

/// What to cache of the graph and of the rows.
pub type CacheFlags = Declared<CacheOptions>;

#[cfg(test)]
mod tests {
    use clap::Parser;
    use uva_runtime::tune::planning::Budget;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        cache: CacheFlags,
    }

    fn parsed(args: &[&str]) -> Result<CacheOptions, clap::Error> {
        Line::try_parse_from([&["x"], args].concat()).map(|line| line.cache.options())
    }

    #[test]
    fn without_an_option_there_is_no_cache() {
        assert_eq!(parsed(&[]).unwrap().request(), None);
    }

    #[test]
    fn a_budget_is_a_size_or_auto() {
        let budget = |text| parsed(&["--gpu-cache", text]).map(|options| options.gpu_cache.unwrap());
        assert_eq!(budget("6GiB").unwrap(), Budget::Bytes(6 << 30));
        assert_eq!(budget("auto").unwrap(), Budget::Auto);
        assert!(budget("0").is_err());
        assert!(budget("much").unwrap_err().to_string().contains("auto uses the memory that is left"));
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
