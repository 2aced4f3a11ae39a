//! `fetch` from S3, as a local server speaks it (moto). The variable below names a Python that has it; without one, the
//! tests say so and pass. `scripts/measure/long_tests.sh` makes such a Python and sets the variable.
//!
//! It is a program of its own because it needs that server. The keys and the endpoint are variables of a process, so each
//! fetch is a process: this program started again, as [`the_process_that_fetches`]. It waits for a line before it takes
//! more than the first piece, so tests change the store in between without waiting for any time. A watchdog ends what
//! hangs.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use uva_fetch::{FetchOptions, fetch};

/// The interpreter that has moto.
const PYTHON: &str = "UVATRAIN_MOTO_PYTHON";
const URL: &str = "UVA_FETCH_TEST_URL";
const TO: &str = "UVA_FETCH_TEST_TO";
const ONLY: &str = "UVA_FETCH_TEST_ONLY";
/// What the fetching process says before the rest of its line.
const MARK: &str = "uva-fetch test: ";
const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
const WATCHDOG: Duration = Duration::from_secs(120);

/// A process that is killed with the test, and by the watchdog where the test waits for it too long.
struct Watched {
    child: Child,
    /// Dropped first, so that the watchdog never kills a number that is another's.
    end: Option<mpsc::Sender<()>>,
    watchdog: Option<JoinHandle<()>>,
}

impl Watched {
    fn start(command: &mut Command) -> Watched {
        let child = command.spawn().unwrap();
        let (end, ended) = mpsc::channel::<()>();
        let pid = Pid::from_child(&child);
        let watchdog = thread::spawn(move || {
            if ended.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout) {
                eprintln!("the watchdog ends process {}", pid.as_raw_nonzero());
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Watched { child, end: Some(end), watchdog: Some(watchdog) }
    }

    /// Waits for its end.
    fn wait(&mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        drop(self.end.take());
        status
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(watchdog) = self.watchdog.take() {
            let _ = watchdog.join();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server of S3 with nothing in it but the bucket `bucket`.
struct Server {
    process: Watched,
    address: SocketAddr,
}

impl Server {
    /// `None` where no Python is named.
    fn start() -> Option<Server> {
        let Some(python) = env::var_os(PYTHON) else {
            println!("skipped: {PYTHON} names no Python with moto[server]");
            return None;
        };
        let mut command = Command::new(python);
        command.args(["-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Watched::start(&mut command);
        let mut lines = BufReader::new(process.child.stderr.take().unwrap()).lines();
        let address = lines.by_ref().find_map(|line| {
            let line = line.unwrap();
            let (_, address) = line.split_once("Running on http://")?;
            Some(address.trim().parse().unwrap())
        });
        // Nobody reads what it says of requests; it must not wait for that.
        thread::spawn(move || lines.for_each(drop));
        let server = Server { process, address: address.expect("moto says where it listens") };
        server.put("bucket", &[]);
        Some(server)
    }

    /// Puts an object that everybody may read, or a bucket. The name goes into the request as it stands. The server wants
    /// a signature to overwrite an object, and looks at none.
    fn put(&self, path: &str, content: &[u8]) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = content.len();
        write!(
            stream,
            "PUT /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n\
             x-amz-acl: public-read\r\nAuthorization: AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/\
             aws4_request, SignedHeaders=host, Signature=0\r\n\r\n"
        )
        .unwrap();
        stream.write_all(content).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }

    /// Starts a fetch of `url` to `to`. Its process waits for a line after its first piece.
    fn fetch(&self, url: &str, to: &Path, only: &str, signs: bool) -> Fetch {
        let endpoint = format!("http://{}", self.address);
        let mut variables = vec![("AWS_ENDPOINT_URL", endpoint.as_str()), ("AWS_ALLOW_HTTP", "true")];
        match signs {
            true => variables.extend(KEYS),
            false => variables.push(("AWS_SKIP_SIGNATURE", "true")),
        }
        Fetch::start(url, to, only, &variables)
    }
}

/// A fetch in a process of its own.
struct Fetch {
    process: Watched,
    lines: BufReader<ChildStdout>,
}

impl Fetch {
    /// Starts it with these variables of AWS's and no others.
    fn start(url: &str, to: &Path, only: &str, variables: &[(&str, &str)]) -> Fetch {
        let mut command = Command::new(env::current_exe().unwrap());
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
            command.env_remove(name);
        }
        command
            .args(["--exact", "the_process_that_fetches", "--ignored", "--nocapture", "--test-threads=1"])
            .envs([(URL, url), (ONLY, only)])
            .envs(variables.iter().copied())
            .env(TO, to)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Watched::start(&mut command);
        let lines = BufReader::new(process.child.stdout.take().unwrap());
        Fetch { process, lines }
    }

    /// The next thing that it says of itself.
    fn hear(&mut self) -> String {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            // The test harness begins the first line.
            if let Some((_, said)) = line.split_once(MARK) {
                return said.trim_end().to_owned();
            }
            line.clear();
        }
        panic!("the fetching process ended and said nothing more");
    }

    /// Lets it go on, and hears how it ended.
    fn end(mut self) -> String {
        self.process.child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        let said = self.hear();
        assert!(self.process.wait().success());
        said
    }
}

/// Not a test, but what [`Server::fetch`] starts.
#[test]
#[ignore = "a role that the tests of this file start"]
fn the_process_that_fetches() {
    let Some(url) = env::var_os(URL) else { return };
    let only = env::var(ONLY).unwrap();
    let options = FetchOptions {
        only: only.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        // In the order of the names, so that it is known what has come.
        at_once: 1,
        retry_for: Duration::from_secs(1),
    };
    let waited = std::cell::Cell::new(false);
    let progress = |progress: uva_graph::Progress| {
        if progress.done > 0 && !waited.replace(true) {
            println!("{MARK}begun");
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).unwrap();
        }
    };
    let done = fetch(url.to_str().unwrap(), Path::new(&env::var_os(TO).unwrap()), &options, &progress);
    match done {
        Ok(fetched) => println!("{MARK}{} files, {} bytes", fetched.files, fetched.bytes),
        Err(error) => println!("{MARK}bad input {}: {error}", error.is_bad_input()),
    }
}

fn content(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|place| ((place + seed) * 31 % 251) as u8).collect()
}

/// Whether nothing is in `parent`: neither the directory nor an unfinished one.
fn is_empty(parent: &Path) -> bool {
    fs::read_dir(parent).unwrap().next().is_none()
}

#[test]
fn objects_come_as_they_are_in_the_store() {
    let Some(server) = Server::start() else { return };
    let large = content((33 << 20) + 7, 1);
    for (name, content) in [
        ("bucket/products/partition.json", &content(20, 2)[..]),
        ("bucket/products/graph/indices.npy", &large),
        // What consoles make for a directory.
        ("bucket/products/graph/", &[]),
        ("bucket/products/part-0/feat.npy", &content(30, 3)),
        ("bucket/products/part-1/with%20space.npy", &content(40, 4)),
        ("bucket/products/part-1/empty.npy", &[]),
        ("bucket/products-2/partition.json", &content(50, 5)),
    ] {
        server.put(name, content);
    }
    let parent = tempfile::tempdir().unwrap();
    for (to, only, signs, all) in
        [("all", "", true, "5 files, 34603105 bytes"), ("some", "part-1", false, "3 files, 60 bytes")]
    {
        let to = parent.path().join(to);
        let mut fetched = server.fetch("s3://bucket/products/", &to, only, signs);
        assert_eq!(fetched.hear(), "begun");
        assert_eq!(fetched.end(), all);
        assert_eq!(fs::read(to.join("partition.json")).unwrap(), content(20, 2));
        assert_eq!(fs::read(to.join("part-1/with space.npy")).unwrap(), content(40, 4));
        assert!(fs::read(to.join("part-1/empty.npy")).unwrap().is_empty());
        assert_eq!(to.join("part-0").exists(), only.is_empty());
    }
    assert!(fs::read(parent.path().join("all/graph/indices.npy")).unwrap() == large);
}

#[test]
fn a_bucket_a_prefix_or_a_name_that_will_not_do_is_refused_with_what_to_do() {
    let Some(server) = Server::start() else { return };
    server.put("bucket/odd/part-0//feat.npy", b"1");
    server.put("bucket/upward/%2E%2E/feat.npy", b"1");
    let parent = tempfile::tempdir().unwrap();
    for (url, parts) in [
        ("s3://nowhere/products", ["cannot list what there is: ", "compare the bucket's name, AWS_REGION"]),
        ("s3://bucket/prod", ["no object is below this", "compare bucket and prefix"]),
        ("s3://bucket/odd", ["part-0//feat.npy", "rename it in the store"]),
        ("s3://bucket/upward", ["upward/../feat.npy", "rename it in the store"]),
    ] {
        let said = server.fetch(url, &parent.path().join("to"), "", true).hear();
        assert!(said.starts_with(&format!("bad input true: {url}: ")), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        assert!(is_empty(parent.path()));
    }
}

#[test]
fn variables_that_describe_no_store_are_refused_and_http_names_the_one_that_allows_it() {
    let parent = tempfile::tempdir().unwrap();
    for (more, parts) in [
        (
            &[("AWS_ALLOW_HTTP", "perhaps")][..],
            ["bad input true: ", "the variables AWS_* describe no store: "],
        ),
        // Refused before anything is asked for: nobody listens there.
        (&[("AWS_ENDPOINT_URL", "http://127.0.0.1:9")], ["bad input false: ", "AWS_ALLOW_HTTP=true"]),
    ] {
        let variables = [&KEYS[..], more].concat();
        let said = Fetch::start("s3://bucket/products", &parent.path().join("to"), "", &variables).hear();
        assert!(said.starts_with(parts[0]) && said.contains(parts[1]), "{said}");
        assert!(is_empty(parent.path()));
    }
}

#[test]
fn an_object_that_is_overwritten_while_it_is_fetched_is_refused() {
    let Some(server) = Server::start() else { return };
    server.put("bucket/products/feat.npy", &content(40 << 20, 1));
    let parent = tempfile::tempdir().unwrap();
    let mut fetched = server.fetch("s3://bucket/products", &parent.path().join("to"), "", true);
    assert_eq!(fetched.hear(), "begun");
    // As many bytes, and others.
    server.put("bucket/products/feat.npy", &content(40 << 20, 2));
    let said = fetched.end();
    let expected = "bad input false: s3://bucket/products: feat.npy: it changed while it was fetched";
    assert!(said.starts_with(expected), "{said}");
    assert!(is_empty(parent.path()));
}

#[test]
fn a_server_that_dies_in_the_middle_is_an_error_and_leaves_nothing_behind() {
    let Some(mut server) = Server::start() else { return };
    server.put("bucket/products/feat.npy", &content(64 << 20, 1));
    let parent = tempfile::tempdir().unwrap();
    let mut fetched = server.fetch("s3://bucket/products", &parent.path().join("to"), "", true);
    assert_eq!(fetched.hear(), "begun");
    assert!(!is_empty(parent.path()), "the unfinished directory lies beside the final name");
    server.process.child.kill().unwrap();
    server.process.wait();
    let said = fetched.end();
    assert!(said.starts_with("bad input false: s3://bucket/products: feat.npy: cannot read it: "), "{said}");
    assert!(said.contains("look at the network, AWS_REGION and AWS_ENDPOINT_URL"), "{said}");
    assert!(is_empty(parent.path()));
}
