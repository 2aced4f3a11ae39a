//! The options of `uvatrain top`.

use clap::Args;

use crate::flags::Seconds;

/// The options of `uvatrain top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain train data/demo --metrics-listen 9184      # in one terminal
  uvatrain top                                        # in another; q ends it
  uvatrain top 9200 --once")]
pub struct TopFlags {
    /// Where the run tells its figures: what its --metrics-listen says, or the address that it printed
    #[arg(value_name = "[HOST:]PORT", default_value = "9184")]
    pub address: String,

    /// How often to look: 500ms, 2s
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = Seconds::within(Seconds::from_milliseconds(100), Seconds::new(60))
    )]
    pub interval: Seconds,

    /// Print one view and end; this is also what happens where stdout is no terminal
    #[arg(long)]
    pub once: bool,
}
