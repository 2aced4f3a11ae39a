//! `uvatrain top`: a live view of a run. It reads the figures of `--metrics-listen`, so it requires only the run's
//! port, and works from another machine as well.

mod frame;
mod layout;
mod scrape;
mod screen;
mod source;

use std::io::{self, IsTerminal};
use std::time::Instant;

use self::frame::History;
use self::screen::{Screen, ScreenInput};
use self::source::{RequestFailure, RunAddress};
use crate::exit;
use crate::flags::machine::TopFlags;
use crate::ui::out;

/// Shows the run until it ends or the user quits.
pub fn run(flags: &TopFlags) -> anyhow::Result<()> {
    let source = RunAddress::new(&flags.address)?;
    let mut history = History::new(source.shown());
    history.take(source.ask().map_err(|trouble| trouble.at_first(&source))?, Instant::now());
    let interval = flags.interval.duration();
    // A terminal that reports that it cannot move its cursor is not drawn on.
    let draws = io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|kind| kind != "dumb");
    if flags.once || !draws {
        // A speed requires two samples. If the run ends between them, the first sample is shown.
        std::thread::sleep(interval);
        if let Ok(figures) = source.ask() {
            history.take(figures, Instant::now());
        }
        return out::text(&history.frame(None));
    }
    let ended = watch(&source, &mut history, Screen::open()?, interval);
    // After the screen is restored, so that the last view stays visible.
    out::text(&history.frame(Some(screen::size()?.0)))?;
    match ended {
        Ok(()) => Ok(()),
        Err(RequestFailure::Refused) => {
            out::say(&format!("the run at {} has ended", source.shown()));
            Ok(())
        }
        Err(trouble) => {
            Err(anyhow::anyhow!("the connection to the run at {} is lost: {trouble}", source.shown()))
        }
    }
}

/// Redraws until the user quits or the run no longer answers.
fn watch(
    source: &RunAddress,
    history: &mut History,
    mut screen: Screen,
    interval: std::time::Duration,
) -> Result<(), RequestFailure> {
    loop {
        screen.draw(|columns| history.frame(Some(columns)))?;
        let next = Instant::now() + interval;
        while let Some(left) = next.checked_duration_since(Instant::now()) {
            match screen.wait(left)? {
                ScreenInput::Quit => return Ok(()),
                ScreenInput::Resized => screen.draw(|columns| history.frame(Some(columns)))?,
                ScreenInput::Nothing => {}
            }
        }
        let figures = match source.ask() {
            // An answer that breaks off may mean that the run ended; a second request shows whether it has.
            Err(RequestFailure::Broken(_)) => source.ask()?,
            other => other?,
        };
        history.take(figures, Instant::now());
    }
}

impl RequestFailure {
    /// The error if no run has answered before.
    fn at_first(self, source: &RunAddress) -> exit::CommandError {
        let shown = source.shown();
        let how = "start the run with --metrics-listen 9184, and give that port, or the address that the run prints";
        exit::usage(match self {
            RequestFailure::Refused => {
                format!("no process listens on {shown}: {how}")
            }
            RequestFailure::Other(what) => format!("{shown} is not a run of uvatrain: {what}; {how}"),
            RequestFailure::Broken(what) => format!("no answer from {shown}: {what}"),
            RequestFailure::Terminal(what) => what,
        })
    }
}
