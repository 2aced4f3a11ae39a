//! The address at which a process of the user's command knocks for a consumer's place: the variable with the address,
//! and the socket.
//!
//! | run | socket | authentication |
//! |---|---|---|
//! | without ranks | a descriptor that the command and all its processes inherit | the kernel reports the sender |
//! | with ranks | a name, outside of the file system | a secret each way, which only the variable has |
//!
//! Programs that start ranks close descriptors, as Python's `subprocess` does, so ranks need a name for the socket.
//! Every user of the machine may send to it, but processes of other users cannot read the variable. They cannot answer
//! for a launcher that has ended either, since its secret is never sent before the answer.

use std::fmt;
use std::os::fd::RawFd;
use std::str::FromStr;

use uva_mem::files::random_word;
use uva_mem::handover::{Channel, HandoverError};

use super::protocol::{VERSION, check, protocol};

/// The variable that names the socket to the command's processes.
pub const VARIABLE: &str = "UVATRAIN_ATTACH";

/// The variable with the number of ranks that the command has to start.
pub const RANKS_VARIABLE: &str = "UVATRAIN_RANKS";

/// The content of [`VARIABLE`]: `VERSION:PROTOCOL:LAUNCHER:` and a [`Socket`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The launcher's process number, for messages.
    pub launcher: u32,
    pub socket: Socket,
}

/// The launcher's socket, as the command's processes find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Socket {
    /// `DESCRIPTOR:IDENTITY`.
    Inherited {
        /// Its number in the command and in all processes that inherit it.
        number: RawFd,
        /// An identity that distinguishes it from another descriptor with the same number.
        identity: u64,
    },
    /// `@NAME:KNOCK:ANSWER`.
    Named { name: String, secrets: Secrets },
}

/// Secrets shared by a launcher and the processes of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Secrets {
    /// The secret of a knock.
    pub knock: u64,
    /// The secret of the answer.
    pub answer: u64,
}

impl Socket {
    /// Creates a socket with a unique name, and returns the end that receives messages.
    ///
    /// # Errors
    /// [`HandoverError::System`].
    pub fn named() -> Result<(Channel, String, Secrets), HandoverError> {
        let word = || random_word().map_err(|source| HandoverError::System { doing: "getrandom", source });
        let name = format!("uvatrain-ranks-{}-{:016x}", std::process::id(), word()?);
        let secrets = Secrets { knock: word()?, answer: word()? };
        Ok((Channel::named(&name)?, name, secrets))
    }

    /// The secrets of knocks and answers at this socket.
    pub fn secrets(&self) -> Option<Secrets> {
        match self {
            Self::Inherited { .. } => None,
            Self::Named { secrets, .. } => Some(*secrets),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}:{}:{}:", protocol(), self.launcher)?;
        match &self.socket {
            Socket::Inherited { number, identity } => write!(f, "{number}:{identity}"),
            Socket::Named { name, secrets: Secrets { knock, answer } } => {
                write!(f, "@{name}:{knock:016x}:{answer:016x}")
            }
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// The error is the reason why the text cannot be used: another version or protocol, reported with this one's, or
    /// text that is not from a launcher.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let version = parts.next().unwrap_or_default();
        // Text without a number is not from a launcher; a version is compared in any case.
        let number = parts.next().and_then(|part| part.parse().ok());
        check(version, number.unwrap_or_else(protocol))?;
        let rest: Vec<&str> = parts.collect();
        of_parts(&rest)
            .ok_or_else(|| format!("environment variable {VARIABLE}={text}: not a launcher's address"))
    }
}

fn of_parts(parts: &[&str]) -> Option<Address> {
    let (launcher, socket) = match *parts {
        [launcher, number, identity] => {
            let number = number.parse().ok().filter(|number| *number >= 0)?;
            (launcher, Socket::Inherited { number, identity: identity.parse().ok()? })
        }
        [launcher, name, knock, answer] => {
            let secret = |text| u64::from_str_radix(text, 16).ok();
            let secrets = Secrets { knock: secret(knock)?, answer: secret(answer)? };
            (launcher, Socket::Named { name: name.strip_prefix('@')?.to_owned(), secrets })
        }
        _ => return None,
    };
    Some(Address { launcher: launcher.parse().ok()?, socket })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_its_variable() {
        let inherited = Socket::Inherited { number: 9, identity: 123_456_789_012 };
        let secrets = Secrets { knock: 7, answer: u64::MAX };
        let named = Socket::Named { name: "uvatrain-ranks-1-00ff".to_owned(), secrets };
        for socket in [inherited, named] {
            let address = Address { launcher: 4711, socket };
            assert_eq!(address.to_string().parse(), Ok(address));
        }
    }

    #[test]
    fn another_version_or_protocol_is_named_and_nonsense_is_refused() {
        let refused = |text: &str| text.parse::<Address>().unwrap_err();
        let own = protocol();
        let other = refused(&format!("0.0.7:{own}:1:2:3"));
        assert!(other.contains("0.0.7") && other.contains(VERSION), "{other}");
        assert!(refused(&format!("{VERSION}:77:1:2:3")).contains("protocol 77"));
        for text in ["", ":", "1:2:3", "::::", "\u{0}"] {
            refused(text);
        }
        for rest in [
            "",
            ":1",
            ":1:2:3:4",
            ":1:x:3",
            ":-1:2:3",
            ":1:-2:3",
            ":1:99999999999:3",
            ":1:@name:2",
            ":1:name:2:3",
            ":1:@name:2:x",
            ":1:@name:2:3:4",
        ] {
            let refused = refused(&format!("{VERSION}:{own}{rest}"));
            assert!(refused.contains("not a launcher's address"), "{rest}: {refused}");
        }
    }
}
