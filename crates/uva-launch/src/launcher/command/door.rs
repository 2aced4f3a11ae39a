//! The consumers' places: requests from processes of the user's command, and their admission.
//!
//! The command and all its processes share one [socket](crate::launcher::wire::address). A process that knocks there
//! therefore sends two descriptors. The first is a private channel for the answer and all later messages. The second is
//! the process's pidfd, by which the launcher detects its end even if it is not a child.
//!
//! An inherited socket can be passed on, so the launcher takes the sender from the kernel. It rejects processes of
//! other users, and a process that sends another one's pidfd: a failed run ends its attached process, and that must not
//! be a different process. At a named socket a secret proves that a process belongs to the command. A process that can
//! read the secret could also end the other process directly.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use uva_mem::PidFd;
use uva_mem::handover::{Channel, HandoverError, ReceivedMessage};

use crate::launcher::process::child::hand_over;
use crate::launcher::process::janitor::Janitor;
use crate::launcher::wire::address::Secrets;
use crate::launcher::wire::messages::{AttachReply, JanitorWord, Knock, Setup};
use crate::launcher::wire::protocol::check;
use uva_runtime::RuntimeError;
use uva_runtime::options::part::Part;

/// The launcher's side: the consumers' places, and the processes that have them.
pub(crate) struct Door {
    /// The socket at which processes of the command knock, while such processes may exist.
    pub knocks: Option<Channel>,
    /// The secrets that authenticate senders at the socket of a run with ranks.
    secrets: Option<Secrets>,
    /// One place for each rank; one in a run without ranks.
    pub places: Vec<ConsumerPlace>,
    /// The reason for the last rejection.
    pub refused: Option<String>,
    on_gpu: bool,
}

/// Maximum number of knocks that are answered before the launcher handles other events.
const AT_ONCE: usize = 100;

/// A consumer's place.
#[derive(Default)]
pub(crate) struct ConsumerPlace {
    /// The set-up and descriptors for the first process that knocks.
    pending: Option<(Box<Setup>, Vec<OwnedFd>)>,
    /// The process that was admitted.
    pub attached: Option<AttachedProcess>,
}

/// A process that took the consumer's place.
pub(crate) struct AttachedProcess {
    pub pidfd: PidFd,
    /// Present until the process has closed its end.
    pub channel: Option<Channel>,
    /// Whether it has reported its failure.
    pub said_why: bool,
    /// Whether it has reported that it takes no more batches.
    pub done: bool,
    pub ended: bool,
    pub on_gpu: bool,
}

impl AttachedProcess {
    /// Whether it checks the stop word at its next batch.
    pub fn takes_batches(&self) -> bool {
        !self.done && !self.gone()
    }

    /// Whether it has ended without a report.
    pub fn vanished(&self) -> bool {
        self.gone() && !self.done && !self.said_why
    }

    /// Whether it has ended or is about to: a killed process closes its end of the channel before its parent can reap
    /// it. Between these, other ranks may detect closed connections and send their last report.
    fn gone(&self) -> bool {
        self.ended || self.channel.is_none()
    }
}

impl Door {
    /// Creates `places` places for processes that knock: for the first one, or with `secrets` for each rank. `on_gpu`
    /// states whether they will have work on a GPU.
    pub fn new(knocks: Channel, secrets: Option<Secrets>, places: usize, on_gpu: bool) -> Self {
        let places = std::iter::repeat_with(ConsumerPlace::default).take(places).collect();
        Self { knocks: Some(knocks), secrets, places, refused: None, on_gpu }
    }

    /// Sets the set-up and descriptors for the process that takes place number `place`, once everything is ready.
    pub fn offer(&mut self, place: usize, setup: Setup, fds: Vec<OwnedFd>) {
        self.places[place].pending = Some((Box::new(setup), fds));
    }

    /// Whether each place belongs to a rank.
    pub fn is_ranked(&self) -> bool {
        self.secrets.is_some()
    }

    /// ` as rank N` for a place in a run with ranks, for messages; otherwise empty.
    pub fn as_rank(&self, place: usize) -> String {
        if self.is_ranked() { format!(" as rank {place}") } else { String::new() }
    }

    /// The processes that were admitted.
    pub fn attached(&self) -> impl Iterator<Item = &AttachedProcess> {
        self.places.iter().filter_map(|place| place.attached.as_ref())
    }

    /// The first place that is not taken.
    pub fn vacant(&self) -> Option<usize> {
        self.places.iter().position(|place| place.attached.is_none())
    }

    /// Answers pending knocks. A malformed knock is ignored, since it must not end a run.
    pub fn answer(&mut self, janitor: &Janitor) -> Result<(), RuntimeError> {
        // Only a few per call: any process may send to a name, and the run must continue.
        for _ in 0..AT_ONCE {
            let Some(channel) = &self.knocks else { return Ok(()) };
            match channel.recv_within(Duration::ZERO) {
                Ok(knock) => self.let_in(knock, janitor)?,
                Err(HandoverError::TimedOut(_)) => return Ok(()),
                Err(HandoverError::Refused(what)) => self.refused = Some(what),
                // An empty message, which any process may send to a name.
                Err(HandoverError::Closed) if self.is_ranked() => {}
                // No process that could knock remains.
                Err(_) => self.knocks = None,
            }
        }
        Ok(())
    }

    fn let_in(&mut self, received: ReceivedMessage, janitor: &Janitor) -> Result<(), RuntimeError> {
        let mut fds = received.fds.into_iter();
        let (Ok(knock), Some(pidfd), Some(Ok(channel))) = (
            serde_json::from_slice::<Knock>(&received.payload),
            fds.next(),
            fds.next().map(Channel::from_fd),
        ) else {
            self.refused = Some("the process sent an invalid message".to_owned());
            return Ok(());
        };
        let who = match self.secrets {
            None => sender_itself(pidfd, received.sender),
            // A sender without the secret gets no answer.
            Some(secrets) if knock.secret != Some(secrets.knock) => return Ok(()),
            Some(_) => PidFd::from_fd(pidfd, knock.pid).map_err(|error| error.to_string()),
        };
        let chosen = who.and_then(|who| {
            check(&knock.version, knock.protocol)?;
            Ok((self.place_for(knock.part, who.pid())?, who))
        });
        let (number, who) = match chosen {
            Ok(chosen) => chosen,
            Err(reason) => {
                self.send_away(&channel, reason);
                return Ok(());
            }
        };
        let pid = who.pid();
        let place = &mut self.places[number];
        let Some((setup, fds)) = place.pending.take() else {
            // The command has ended, or the run is about to.
            let _ = hand_over(&channel, &AttachReply::Refused("the run is ending".to_owned()), &[]);
            return Ok(());
        };
        let word = JanitorWord::Attached { pid, on_gpu: self.on_gpu };
        janitor.tell(&word, &[who.as_fd()])?;
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let welcome = AttachReply::Welcome { setup, secret: self.secrets.map(|secrets| secrets.answer) };
        match hand_over(&channel, &welcome, &borrowed) {
            Ok(()) => {}
            Err(HandoverError::Closed) => {
                // It has ended meanwhile; the next process may take the place.
                if let AttachReply::Welcome { setup, .. } = welcome {
                    place.pending = Some((setup, fds));
                }
                return Ok(());
            }
            Err(error) => {
                return Err(RuntimeError::failed(format!("process {pid} cannot attach: {error}")));
            }
        }
        // Each descriptor is closed in this process here. Only then does the attached process's death close what it
        // shares with a role.
        drop(fds);
        tracing::info!(
            pid,
            calls_itself = knock.pid,
            place = number,
            "a process has attached as the consumer"
        );
        place.attached = Some(AttachedProcess {
            pidfd: who,
            channel: Some(channel),
            said_why: false,
            done: false,
            ended: false,
            on_gpu: self.on_gpu,
        });
        Ok(())
    }

    /// The place of a process that claims to be this rank.
    ///
    /// # Errors
    /// The reason why it gets no place.
    fn place_for(&self, part: Part, pid: u32) -> Result<usize, String> {
        let ranks = self.places.len();
        if !self.is_ranked() {
            return match &self.places[0].attached {
                None => Ok(0),
                Some(other) => Err(format!(
                    "{}, and process {pid} attached after it: one process takes the batches of all splits and epochs. With \
                     `--ranks N`, each of N ranks takes its own batches",
                    has_attached(other, "")
                )),
            };
        }
        let Part { index, of } = part;
        if of as usize != ranks {
            return Err(format!(
                "process {pid} is rank {index} of {of} (RANK and WORLD_SIZE), but this run has {ranks} ranks \
                 (UVATRAIN_RANKS): start {ranks} processes. Ranks on several machines load with uvatrain.Loader"
            ));
        }
        match self.places.get(index as usize).map(|place| &place.attached) {
            Some(None) => Ok(index as usize),
            Some(Some(other)) => Err(format!(
                "{}, and process {pid} attached after it",
                has_attached(other, &format!(" as rank {index}"))
            )),
            None => Err(format!(
                "process {pid} is rank {index} (RANK), but this run has {ranks} ranks: expected 0 to {}",
                ranks - 1
            )),
        }
    }

    fn send_away(&mut self, channel: &Channel, reason: String) {
        // If it has ended, it needs no answer.
        let _ = hand_over(channel, &AttachReply::Refused(reason.clone()), &[]);
        tracing::debug!(reason, "a process is refused");
        self.refused = Some(reason);
    }

    /// Stops the admission of processes.
    pub fn close(&mut self) {
        self.places.iter_mut().for_each(|place| place.pending = None);
    }

    /// Records which attached processes have ended.
    pub fn see_ends(&mut self) {
        for attached in self.places.iter_mut().filter_map(|place| place.attached.as_mut()) {
            // A pidfd that cannot be polled does not prove that the process has ended.
            attached.ended = attached.ended || !attached.pidfd.is_alive().unwrap_or(true);
        }
    }
}

fn has_attached(other: &AttachedProcess, rank: &str) -> String {
    let ended = if other.ended { " and has ended" } else { "" };
    format!("process {} has attached to this run{rank}{ended}", other.pidfd.pid())
}

/// The pidfd that came with a knock, if it belongs to the knocking process.
fn sender_itself(pidfd: OwnedFd, sender: Option<u32>) -> Result<PidFd, String> {
    let sender = sender.ok_or("the kernel did not report the sender of the message")?;
    let pidfd = PidFd::from_fd(pidfd, sender).map_err(|error| error.to_string())?;
    // Both numbers are in the namespace that /proc was mounted in, which need not be this process's.
    let numbers = PidFd::open(sender).and_then(|own| Ok((own.number()?, pidfd.number()?)));
    match numbers {
        Ok((Some(own), Some(brought))) if own == brought => Ok(pidfd),
        Ok((Some(own), Some(brought))) => Err(format!(
            "process {own} sent the pidfd of process {brought}; a process can attach only itself"
        )),
        Ok(_) => Err(format!("process {sender}, or the process of the pidfd that it sent, has ended")),
        Err(error) => Err(format!("process {sender} and the pidfd that it sent: {error}")),
    }
}
