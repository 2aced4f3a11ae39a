//! A terminal for a view that is redrawn repeatedly: it uses the alternate screen and reads keys without Enter. The
//! terminal is restored in every case.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::low_level::pipe;
use uva_files::escape;

/// Switches to the alternate screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The input that arrived between two drawings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenInput {
    /// The time limit passed without input.
    Nothing,
    /// The terminal was resized.
    Resized,
    /// `q`, or a signal that requests the end.
    Quit,
}

/// The terminal, for the lifetime of the view.
pub struct Screen {
    /// Readable after a signal: one for the end, one for a new size.
    ends: UnixStream,
    resizes: UnixStream,
    /// The original settings of the keyboard; `None` if stdin is not a terminal, and no keys are read.
    keyboard: Option<Termios>,
    /// Whether stdin is at its end.
    deaf: bool,
}

impl Screen {
    /// Takes the terminal of stdout, and the keys of stdin if it is a terminal.
    ///
    /// # Errors
    /// If signals or the terminal are unavailable.
    pub fn open() -> io::Result<Self> {
        let (ends, from_ends) = UnixStream::pair()?;
        let (resizes, from_resizes) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            pipe::register(signal, from_ends.try_clone()?)?;
        }
        pipe::register(SIGWINCH, from_resizes)?;
        [&ends, &resizes].into_iter().try_for_each(|stream| stream.set_nonblocking(true))?;
        let keyboard = tcgetattr(io::stdin()).ok();
        if let Some(before) = &keyboard {
            let mut at_once = before.clone();
            // Ctrl-C remains a signal.
            at_once.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(io::stdin(), OptionalActions::Now, &at_once)?;
        }
        // From here on, dropping the screen restores the terminal.
        let screen = Self { ends, resizes, keyboard, deaf: false };
        let mut out = io::stdout().lock();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        drop(out);
        Ok(screen)
    }

    /// Replaces the screen's text, cut to the terminal's size. `text` makes the text for a given number of columns.
    ///
    /// # Errors
    /// If the terminal cannot be written.
    pub fn draw(&mut self, text: impl FnOnce(usize) -> String) -> io::Result<()> {
        let (columns, rows) = size()?;
        let text = text(columns);
        // The control sequences of this view are added around the escaped text.
        let text = escape::lines(&text);
        let mut drawn = String::from("\x1b[H");
        for (place, line) in text.lines().take(rows).enumerate() {
            drawn += if place == 0 { "" } else { "\r\n" };
            drawn.extend(line.chars().take(columns));
            drawn += "\x1b[K";
        }
        drawn += "\x1b[J";
        let mut out = io::stdout().lock();
        out.write_all(drawn.as_bytes())?;
        out.flush()
    }

    /// Waits for input, for at most `most`.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn wait(&mut self, most: Duration) -> io::Result<ScreenInput> {
        let stdin = io::stdin();
        let mut fds = vec![PollFd::new(&self.ends, PollFlags::IN), PollFd::new(&self.resizes, PollFlags::IN)];
        if self.keyboard.is_some() && !self.deaf {
            fds.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
        }
        let timeout = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let heard: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if heard[0] {
            return Ok(ScreenInput::Quit);
        }
        if heard[1] {
            let mut word = [0; 64];
            // A failed read means that the byte was already read.
            let _ = io::Read::read(&mut &self.resizes, &mut word);
            return Ok(ScreenInput::Resized);
        }
        if heard.get(2) == Some(&true) {
            let mut keys = [0; 64];
            // Reads the descriptor itself: poll does not report buffered bytes.
            let count = rustix::io::read(&stdin, &mut keys)?;
            self.deaf = count == 0;
            if keys[..count].iter().any(|key| matches!(key, b'q' | b'Q')) {
                return Ok(ScreenInput::Quit);
            }
        }
        Ok(ScreenInput::Nothing)
    }
}

/// Columns and rows of the terminal of stdout; 80 by 24 if it reports no size.
///
/// # Errors
/// If the terminal cannot be queried.
pub fn size() -> io::Result<(usize, usize)> {
    let size = tcgetwinsize(io::stdout())?;
    let known = |size: u16, usual: usize| if size == 0 { usual } else { usize::from(size) };
    Ok((known(size.ws_col, 80), known(size.ws_row, 24)))
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        if let Some(before) = &self.keyboard {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
        let mut out = io::stdout().lock();
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    }
}
