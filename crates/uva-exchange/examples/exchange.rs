//! Times exchanges between ranks that are threads of this process.
//!
//! `exchange RANKS BYTES ROUNDS`: in each round each rank gives every rank an equal share of BYTES (with KiB, MiB or GiB).
//! Prints the median time of a round, and the bytes a second that leave one rank for others.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use uva_exchange::{Exchange, ExchangeError, Settings, SharedMemory, Splits};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((ranks, bytes, rounds)) = read(&arguments) else {
        eprintln!("usage: exchange RANKS BYTES ROUNDS, such as: exchange 2 64MiB 20");
        return ExitCode::from(2);
    };
    match median_seconds(ranks, bytes, rounds) {
        Ok(seconds) => {
            let sent = (bytes / ranks * (ranks - 1)) as f64;
            let speed = sent / seconds / 1e9;
            println!("{ranks} ranks, {bytes} bytes each: {:.3} ms a round, {speed:.2} GB/s", seconds * 1e3);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn read(arguments: &[String]) -> Option<(usize, usize, usize)> {
    let [ranks, bytes, rounds] = arguments else { return None };
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((bytes.strip_suffix(unit)?, shift)));
    let (number, shift) = unit.unwrap_or((bytes, 0));
    let bytes = number.parse::<usize>().ok()?.checked_mul(1 << shift)?;
    let (ranks, rounds) = (ranks.parse().ok()?, rounds.parse().ok()?);
    (ranks > 0 && rounds > 0).then_some((ranks, bytes, rounds))
}

/// The median round of rank 0. All ranks meet in each round, so the others' take as long.
fn median_seconds(ranks: usize, bytes: usize, rounds: usize) -> Result<f64, ExchangeError> {
    let group = SharedMemory::threads(&Settings::new(ranks))?;
    let times: Vec<Result<Vec<f64>, ExchangeError>> = thread::scope(|scope| {
        let rank = |mut exchange: SharedMemory| scope.spawn(move || time(&mut exchange, bytes, rounds));
        let threads: Vec<_> = group.into_iter().map(rank).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank does not panic")).collect()
    });
    let mut all = times.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut first = all.swap_remove(0);
    first.sort_by(f64::total_cmp);
    Ok(first[first.len() / 2])
}

fn time(exchange: &mut SharedMemory, bytes: usize, rounds: usize) -> Result<Vec<f64>, ExchangeError> {
    let ranks = exchange.ranks();
    let share = bytes / ranks;
    let splits = vec![share; ranks];
    let (send, mut recv) = (vec![1; share * ranks], vec![0; share * ranks]);
    let mut round = || {
        let start = Instant::now();
        exchange.all_to_all(&send, &mut recv, Splits { send: &splits, recv: &splits })?;
        Ok(start.elapsed().as_secs_f64())
    };
    // Memory is first touched before anything is timed.
    round()?;
    (0..rounds).map(|_| round()).collect()
}
