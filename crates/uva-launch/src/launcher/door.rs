//! Where a process of the user's command requests the consumer's place: the variable that names it, and who is
//! admitted.
//!
//! The command and all its processes inherit one end of a socket. So a process that knocks there sends two descriptors
//! along. One is a channel of its own, for the answer and all later messages. The other is its pidfd, which shows its
//! end although it need not be the launcher's child.
//!
//! An inherited socket can travel far, so the launcher asks the kernel for the sender. It refuses processes of other
//! users, and a process that brings another's pidfd. A failed run ends its attached process, and nobody may name
//! somebody else for that.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::str::FromStr;
use std::time::Duration;

use uva_mem::PidFd;
use uva_mem::handover::{Channel, HandoverError, Received};

use super::child::hand_over;
use super::janitor::Janitor;
use super::messages::{Answer, JanitorWord, Knock, Setup};
use super::protocol::{PROTOCOL, VERSION, check};
use uva_runtime::RuntimeError;

/// The variable that names the socket to the command's processes.
pub const VARIABLE: &str = "UVATRAIN_ATTACH";

/// The content of [`VARIABLE`]: `VERSION:PROTOCOL:LAUNCHER:DESCRIPTOR:IDENTITY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// The launcher's process number, for messages.
    pub launcher: u32,
    /// The socket's number in the command and in all processes that inherit it.
    pub number: RawFd,
    /// What distinguishes that socket from another under the same number.
    pub identity: u64,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}:{PROTOCOL}:{}:{}:{}", self.launcher, self.number, self.identity)
    }
}

impl FromStr for Address {
    type Err = String;

    /// The error says why it cannot be used: another version or protocol, named with this one's, or text that no
    /// launcher wrote.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':').peekable();
        let version = parts.next().unwrap_or_default();
        // A launcher from before the protocol number wrote one part less.
        let numbered = text.matches(':').count() != 3;
        let protocol = parts.next_if(|_| numbered).map(|part| part.parse().ok());
        check(version, protocol.unwrap_or(None))?;
        let mut number = || parts.next().and_then(|part| part.parse::<i64>().ok());
        let (launcher, descriptor, identity) = (number(), number(), number());
        let address = (|| {
            Some(Self {
                launcher: launcher?.try_into().ok()?,
                number: descriptor?.try_into().ok()?,
                identity: identity?.try_into().ok()?,
            })
        })();
        address
            .filter(|_| parts.next().is_none())
            .ok_or_else(|| format!("{VARIABLE}={text} is not what a launcher writes there"))
    }
}

/// The launcher's side: the consumer's place, and the process that has it.
pub(super) struct Door {
    /// Where processes of the command knock, while there may be any.
    pub knocks: Option<Channel>,
    /// What the first process that knocks is handed.
    pending: Option<(Box<Setup>, Vec<OwnedFd>)>,
    /// The process that was admitted.
    pub attached: Option<AttachedProcess>,
    /// Why a process was refused.
    pub refused: Option<String>,
    on_gpu: bool,
}

/// A process that took the consumer's place.
pub(super) struct AttachedProcess {
    pub pidfd: PidFd,
    /// Present until it has closed its end.
    pub channel: Option<Channel>,
    /// It has reported its failure.
    pub said_why: bool,
    /// It has reported that it takes no more batches.
    pub done: bool,
    pub ended: bool,
    pub on_gpu: bool,
}

impl AttachedProcess {
    /// Whether it checks the stop word at its next batch.
    pub fn takes_batches(&self) -> bool {
        !self.done && !self.ended
    }
}

impl Door {
    /// A place for the first process that knocks. `on_gpu`: it will have work on a GPU.
    pub fn new(knocks: Channel, on_gpu: bool) -> Self {
        Self { knocks: Some(knocks), pending: None, attached: None, refused: None, on_gpu }
    }

    /// What to hand over, now that everything is ready.
    pub fn offer(&mut self, setup: Setup, fds: Vec<OwnedFd>) {
        self.pending = Some((Box::new(setup), fds));
    }

    /// Answers all knocks so far. A malformed knock is ignored: it is no reason to end a run.
    pub fn answer(&mut self, janitor: &Janitor) -> Result<(), RuntimeError> {
        while let Some(channel) = &self.knocks {
            match channel.recv_within(Duration::ZERO) {
                Ok(knock) => self.let_in(knock, janitor)?,
                Err(HandoverError::TimedOut(_)) => return Ok(()),
                Err(HandoverError::Refused(what)) => self.refused = Some(what),
                // No process is left that could knock.
                Err(_) => self.knocks = None,
            }
        }
        Ok(())
    }

    fn let_in(&mut self, received: Received, janitor: &Janitor) -> Result<(), RuntimeError> {
        let mut fds = received.fds.into_iter();
        let (Ok(knock), Some(pidfd), Some(Ok(channel))) = (
            serde_json::from_slice::<Knock>(&received.payload),
            fds.next(),
            fds.next().map(Channel::from_fd),
        ) else {
            self.refused = Some("what it said cannot be read".to_owned());
            return Ok(());
        };
        let who = match sender_itself(pidfd, received.sender) {
            Ok(pidfd) => pidfd,
            Err(reason) => {
                self.send_away(&channel, reason);
                return Ok(());
            }
        };
        let pid = who.pid();
        let reason = match (check(&knock.version, knock.protocol), &self.attached) {
            (Err(reason), _) => Some(reason),
            (_, Some(other)) => {
                let (other, ended) =
                    (other.pidfd.pid(), if other.ended { ", which has ended since" } else { "" });
                Some(format!(
                    "process {other} has attached to this run before{ended}; one process takes its batches, of all \
                     splits and epochs, and process {pid} came second"
                ))
            }
            _ => None,
        };
        if let Some(reason) = reason {
            self.send_away(&channel, reason);
            return Ok(());
        }
        let Some((setup, fds)) = self.pending.take() else {
            // The command has ended, or the run is about to.
            let _ = hand_over(&channel, &Answer::Refused("the run is ending".to_owned()), &[]);
            return Ok(());
        };
        let word = JanitorWord::Attached { pid, on_gpu: self.on_gpu };
        janitor.tell(&word, &[who.as_fd()])?;
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let welcome = Answer::Welcome(setup);
        match hand_over(&channel, &welcome, &borrowed) {
            Ok(()) => {}
            Err(HandoverError::Closed) => {
                // It has ended meanwhile; the next process may come.
                if let Answer::Welcome(setup) = welcome {
                    self.pending = Some((setup, fds));
                }
                return Ok(());
            }
            Err(error) => {
                return Err(RuntimeError::Failed(format!("process {pid} cannot attach: {error}")));
            }
        }
        // Each descriptor leaves this process here. Only then does the attached process's death close what it shares
        // with a role.
        drop(fds);
        tracing::info!(pid, calls_itself = knock.pid, "a process has taken up the consumer's place");
        self.attached = Some(AttachedProcess {
            pidfd: who,
            channel: Some(channel),
            said_why: false,
            done: false,
            ended: false,
            on_gpu: self.on_gpu,
        });
        Ok(())
    }

    fn send_away(&mut self, channel: &Channel, reason: String) {
        // If it has ended, it needs no answer.
        let _ = hand_over(channel, &Answer::Refused(reason.clone()), &[]);
        tracing::debug!(reason, "a process is sent away");
        self.refused = Some(reason);
    }

    /// Admits no one any more.
    pub fn close(&mut self) {
        self.pending = None;
    }

    /// Records whether the attached process has ended. Returns true when it sees the end for the first time.
    pub fn see_end(&mut self) -> bool {
        match &mut self.attached {
            Some(attached) if !attached.ended => {
                // A pidfd that cannot be polled is no sign of death.
                attached.ended = !attached.pidfd.is_alive().unwrap_or(true);
                attached.ended
            }
            _ => false,
        }
    }
}

/// The pidfd that came with a knock, provided it is that of the knocking process.
fn sender_itself(pidfd: OwnedFd, sender: Option<u32>) -> Result<PidFd, String> {
    let sender = sender.ok_or("the kernel does not say who knocked")?;
    let pidfd = PidFd::from_fd(pidfd, sender).map_err(|error| error.to_string())?;
    // Both numbers are in the namespace that /proc was mounted in, which need not be this process's.
    let numbers = PidFd::open(sender).and_then(|own| Ok((own.number()?, pidfd.number()?)));
    match numbers {
        Ok((Some(own), Some(brought))) if own == brought => Ok(pidfd),
        Ok((Some(own), Some(brought))) => Err(format!(
            "process {own} brought the pidfd of process {brought}; a process can attach itself alone"
        )),
        Ok(_) => Err(format!("process {sender}, or the one whose pidfd it brought, has ended")),
        Err(error) => Err(format!("process {sender} and the pidfd that it brought: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_its_variable() {
        let address = Address { launcher: 4711, number: 9, identity: 123_456_789_012 };
        assert_eq!(address.to_string().parse(), Ok(address));
    }

    #[test]
    fn another_version_or_protocol_is_named_with_this_one_and_nonsense_is_told_as_such() {
        let refused = |text: &str| text.parse::<Address>().unwrap_err();
        let other = refused(&format!("0.0.7:{PROTOCOL}:1:2:3"));
        assert!(other.contains("0.0.7") && other.contains(VERSION), "{other}");
        assert!(refused(&format!("{VERSION}:77:1:2:3")).contains("protocol 77"));
        assert!(refused(&format!("{VERSION}:1:2:3")).contains("no protocol number"));
        for text in ["", ":", "1:2:3", "::::", "\u{0}"] {
            refused(text);
        }
        for rest in ["", ":1", ":1:2:3:4", ":1:x:3", ":-1:2:3", ":1:99999999999:3"] {
            let refused = refused(&format!("{VERSION}:{PROTOCOL}{rest}"));
            assert!(refused.contains("not what a launcher writes"), "{rest}: {refused}");
        }
    }
}
