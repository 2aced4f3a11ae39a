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
    /// Address of the run's metrics: the value of its --metrics-listen, or the address that the run printed
    #[arg(value_name = "[HOST:]PORT", default_value = "9184")]
    pub address: String,

    /// Interval between updates: 500ms, 2s
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = Seconds::within(Seconds::from_milliseconds(100), Seconds::new(60))
    )]
    pub interval: Seconds,

    /// Print one view and exit; this is the default if stdout is not a terminal
    #[arg(long)]
    pub once: bool,
}
