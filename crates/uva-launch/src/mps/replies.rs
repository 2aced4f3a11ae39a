//! Replies of the control program, parsed leniently: the wording varies between drivers.

use serde::Serialize;

/// A process that uses a GPU through a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Client {
    /// Its number, in the daemon's PID namespace.
    pub pid: u32,
    /// Its server's number.
    pub server: u32,
    /// Its program's name.
    pub command: String,
}

/// Whether an answer means that there was no daemon to query. Some drivers exit with 0 in this case.
pub(super) fn is_refusal(reply: &str) -> bool {
    reply.starts_with("Cannot find MPS control daemon")
}

/// Process numbers, one per line.
pub(super) fn pids(reply: &str) -> Vec<u32> {
    reply.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// A percentage, such as `100.0`.
pub(super) fn percentage(reply: &str) -> Option<f64> {
    reply.trim().trim_end_matches('%').parse().ok()
}

/// The table that `ps` prints: PID, ID, SERVER, DEVICE, NAMESPACE, COMMAND, and ATTRIBUTES in newer drivers. A client
/// has one row per device; it counts once.
pub(super) fn clients(reply: &str) -> Vec<Client> {
    let mut clients: Vec<Client> = Vec::new();
    for line in reply.lines() {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| columns.get(at).and_then(|column| column.parse::<u32>().ok());
        if let (Some(pid), Some(server), Some(command)) = (number(0), number(2), columns.get(5))
            && !clients.iter().any(|seen| (seen.pid, seen.server) == (pid, server))
        {
            clients.push(Client { pid, server, command: (*command).to_owned() });
        }
    }
    clients
}

/// Whether `terminate_client` has printed 0, which means success.
pub(super) fn is_done(reply: &str) -> bool {
    reply.trim() == "0"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_table_of_clients_is_read_and_each_client_counts_once() {
        let reply = "PID ID SERVER DEVICE NAMESPACE COMMAND ATTRIBUTES\n\
                     9741  0  6472  GPU-cb1213a3-d6a4-be7f  4026531836  ./nbody\n\
                     9741  0  6472  GPU-0e19c809-f81d-0000  4026531836  ./nbody\n\
                     9743  1  6472  GPU-cb1213a3-d6a4-be7f  4026531836  ./matrixMul  SP\n";
        let client = |pid, command: &str| Client { pid, server: 6472, command: command.to_owned() };
        assert_eq!(clients(reply), [client(9741, "./nbody"), client(9743, "./matrixMul")]);
        assert!(clients("").is_empty());
    }

    #[test]
    fn numbers_are_read_and_words_are_not_mistaken_for_them() {
        assert_eq!(pids("12\n 13 \n\nServer 14\n"), [12, 13]);
        assert_eq!(percentage("100.0\n"), Some(100.0));
        assert_eq!(percentage("Server 12 not found"), None);
        assert!(is_done("0\n") && !is_done("CUDA_ERROR_UNKNOWN\n") && !is_done(""));
        assert!(is_refusal("Cannot find MPS control daemon process\n") && !is_refusal("100.0\n"));
    }
}
