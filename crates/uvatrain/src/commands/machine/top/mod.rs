//! `uvatrain top`: a live view of a run. It reads the figures of `--metrics-listen`, so it needs only the run's port,
//! and works from another machine too.

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
use crate::flags::TopFlags;
use crate::ui::out;

/// Shows the run until it ends or the user quits.
pub fn run(flags: &TopFlags) -> anyhow::Result<()> {
    let source = RunAddress::new(&flags.address)?;
    let mut history = History::new(source.shown());
    history.take(source.ask().map_err(|trouble| trouble.at_first(&source))?, Instant::now());
    let interval = flags.interval.duration();
    // A terminal that says of itself that it cannot move its cursor is none to draw on.
    let draws = io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|kind| kind != "dumb");
    if flags.once || !draws {
        // A speed takes two looks. A run that ends between them is shown as it was.
        std::thread::sleep(interval);
        if let Ok(figures) = source.ask() {
            history.take(figures, Instant::now());
        }
        return out::text(&history.frame(None));
    }
    let ended = watch(&source, &mut history, Screen::open()?, interval);
    // Behind the screen's end, so that it stays to be seen.
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

/// Draws again and again, until a person has seen enough or the run cannot be asked any more.
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
    /// Its meaning if no run has answered before.
    fn at_first(self, source: &RunAddress) -> exit::CommandError {
        let shown = source.shown();
        let how = "start it with --metrics-listen 9184, and name that port, or the address that it prints";
        exit::usage(match self {
            RequestFailure::Refused => {
                format!("nobody listens at {shown}: a run tells its figures where it was asked to; {how}")
            }
            RequestFailure::Other(what) => format!("{shown} is no run of uvatrain: {what}; {how}"),
            RequestFailure::Broken(what) => format!("no answer from {shown}: {what}"),
            RequestFailure::Terminal(what) => what,
        })
    }
}
