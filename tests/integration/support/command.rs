//! A command for `uvatrain run`, written in Rust: the test's own executable, started with the name of the one test that
//! runs it. A variable specifies its steps.
//!
//! | step | effect |
//! |---|---|
//! | `attach` | attaches; a refusal goes to stderr, and ends it with 70 |
//! | `take N` | takes this many training batches, through the epochs, and records each |
//! | `take` | takes all remaining batches: ends with 75 after a stop request, and with 74 at the end |
//! | `hold MILLISECONDS` | from now on holds each batch for this time |
//! | `pass SPLIT EPOCH` | takes that pass |
//! | `features` | takes a training batch; says the type of its feature values and the hash of their bytes |
//! | `contents` | takes the batches of the pass; says sizes and a hash of all columns of each |
//! | `close` | gives the place up |
//! | `say WORD`, `file NAME`, `pid NAME` | a line on stdout; an empty file; a file with its process number |
//! | `await NAME` | waits until a file is there |
//! | `ignore` | SIGINT and SIGTERM do nothing from now on |
//! | `linger` | waits indefinitely |
//! | `catch` | from now on an error of `take` is printed, and the next step follows |
//! | `kill`, `exit N` | ends by SIGKILL, or with a code |

use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use uva_graph::Split;
use uva_launch::launcher::attach;
use uva_runtime::pipeline::consumer::{BatchStream, PassCursor};
use uva_runtime::{Batch, RuntimeError};

use super::Uvatrain;
use super::runs::wait_until;

/// The test that is the command, by its full name.
pub const NAME: &str = "support::command::the_command";

/// The steps of the command, separated by semicolons.
pub const STEPS: &str = "UVATRAIN_TEST_STEPS";

/// The file in which it records each batch: split, epoch, number, hash.
pub const RECORD: &str = "record";

/// `uvatrain run graph OPTIONS -- …`, with a command that runs these steps. `shell`, if given, is a line of the shell
/// in which `"$@"` is the command.
pub fn run(directory: &Path, options: &str, shell: Option<&str>, steps: &str) -> Uvatrain {
    run_with(directory, &format!("--samplers 2 {options}"), shell, steps)
}

/// As [`run`], with the number of samplers from the options. Workers gather alone.
pub fn run_with(directory: &Path, options: &str, shell: Option<&str>, steps: &str) -> Uvatrain {
    let own = std::env::current_exe().expect("this executable");
    let threads = if options.contains("--prepare whole") { "" } else { "--gather-threads 1" };
    let mut words: Vec<std::ffi::OsString> =
        format!("run graph --fanouts 5,4 --batch-size 100 {threads} {options} --")
            .split_whitespace()
            .map(Into::into)
            .collect();
    if let Some(shell) = shell {
        words.extend(["sh", "-c", shell, "sh"].map(Into::into));
    }
    words.push(own.into());
    words.extend([NAME, "--exact", "--nocapture", "--test-threads=1"].map(Into::into));
    super::uvatrain(directory, words).env(STEPS, steps)
}

/// The test that is started as the command; in a normal test run it does nothing.
#[test]
fn the_command() {
    let Ok(steps) = std::env::var(STEPS) else { return };
    let mut stream = None;
    let (mut catches, mut hold) = (false, Duration::ZERO);
    for step in steps.split(';').map(str::trim).filter(|step| !step.is_empty()) {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        catches |= verb == "catch";
        if let Err(error) = do_step(&mut stream, &mut hold, verb, rest) {
            eprintln!("command: {error}");
            if catches {
                continue;
            }
            std::process::exit(match error {
                RuntimeError::PeerGone(_) => 74,
                RuntimeError::Interrupted(_) => 75,
                RuntimeError::Unattached(_) => 70,
                _ => 71,
            });
        }
    }
    drop(stream);
    std::process::exit(0);
}

fn do_step(
    stream: &mut Option<BatchStream>,
    hold: &mut Duration,
    verb: &str,
    rest: &str,
) -> Result<(), RuntimeError> {
    match verb {
        "hold" => *hold = Duration::from_millis(rest.parse().expect("milliseconds")),
        "attach" => *stream = Some(attach()?.begin(Split::Train)),
        "take" => {
            let most = rest.parse().unwrap_or(u64::MAX);
            take(stream.as_mut().expect("it has attached"), most, true, *hold)?;
        }
        "pass" => {
            let (split, epoch) = rest.split_once(' ').expect("a split and an epoch");
            let split = Split::ALL.into_iter().find(|s| s.name() == split).expect("a split");
            let stream = stream.as_mut().expect("it has attached");
            stream.go_to(PassCursor { split, epoch: epoch.parse().expect("an epoch"), first: 0, batch: 0 });
            take(stream, u64::MAX, false, *hold)?;
        }
        "features" => {
            let stream = stream.as_mut().expect("it has attached");
            let batch = stream.next_batch(&|| false)?.expect("a batch");
            let features = match batch.is_on_device() {
                true => format!("{} on a GPU", batch.layout().element()),
                false => format!("{} {:016x}", batch.features().element, hash(batch.features().bytes)),
            };
            println!("{features}");
        }
        "contents" => {
            let stream = stream.as_mut().expect("it has attached");
            while let Some(batch) = stream.next_batch(&|| false)? {
                println!("{} {}", batch.index(), contents(&batch));
            }
        }
        "close" => stream.take().map_or(Ok(()), BatchStream::close)?,
        "say" => println!("{rest}"),
        "file" => std::fs::write(rest, "").expect("a file"),
        "pid" => {
            // Written whole, so that a reader never sees a part.
            std::fs::write("pid", std::process::id().to_string()).expect("a file");
            std::fs::rename("pid", rest).expect("a file");
        }
        "await" => wait_until(rest, || Path::new(rest).exists()),
        "ignore" => {
            for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
                signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).expect("a handler");
            }
        }
        "catch" => {}
        "linger" => loop {
            std::thread::park();
        },
        "kill" => {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).expect("a signal");
        }
        "exit" => std::process::exit(rest.parse().expect("an exit code")),
        other => panic!("no step: {other}"),
    }
    Ok(())
}

/// The sizes of a batch and a hash of all its columns.
pub fn contents(batch: &Batch) -> String {
    let columns = batch.layout().columns().iter();
    let columns = columns.map(|place| batch.column_of(place.key).expect("a column"));
    let hashes: Vec<u64> = columns.map(|column| hash(column.bytes().expect("host memory"))).collect();
    let sizes = (batch.seed_count(), batch.node_count(), batch.counts(0).edges);
    format!("{} {sizes:?} {:016x}", batch.is_padded(), hash(format!("{hashes:?}").as_bytes()))
}

/// A hash of bytes, the same in every process of a build.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Takes this many batches and records each, through the epochs that follow, or in this pass only.
fn take(
    stream: &mut BatchStream,
    most: u64,
    through_epochs: bool,
    hold: Duration,
) -> Result<(), RuntimeError> {
    let mut record = OpenOptions::new().create(true).append(true).open(RECORD).expect("the record");
    let mut taken = 0;
    while taken < most {
        let Some(batch) = stream.next_batch(&|| false)? else {
            if stream.is_stopped() {
                return Err(RuntimeError::Interrupted(2));
            }
            if !through_epochs {
                return Ok(());
            }
            let place = stream.place();
            stream.go_to(PassCursor { epoch: place.epoch + 1, batch: 0, ..place });
            continue;
        };
        let (split, epoch, index, hash) = (batch.split(), batch.epoch(), batch.index(), batch.hash());
        // In one write, so that a reader sees whole lines.
        let line = format!("{split} {epoch} {index} {hash:016x}\n");
        record.write_all(line.as_bytes()).expect("the record");
        std::thread::sleep(hold);
        taken += 1;
    }
    Ok(())
}

/// The recorded split, epoch, number and hash of each batch.
pub fn recorded(directory: &Path) -> Vec<(String, u64, u64, String)> {
    let text = std::fs::read_to_string(directory.join(RECORD)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parsed = whole.lines().map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut word = || words.next().expect("four words");
        let (split, epoch, number, hash) = (word(), word(), word(), word());
        (split, epoch.parse().expect("a number"), number.parse().expect("a number"), hash)
    });
    parsed.collect()
}
