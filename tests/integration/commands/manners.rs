//! How the command line behaves where it is used daily: options from a file, suggestions, completions, manual pages,
//! colours, closed pipes. The real binary throughout; nothing here needs libtorch.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use crate::support::arrays::six_nodes;
use crate::support::{assert_same_contents, contents, directory, uvatrain};

// ---- options from a file

#[test]
fn a_file_gives_the_options_that_are_not_typed() {
    let temp = directory();
    let file = "[generate]\nnodes = 500\nclasses = 3\nkind = 'sbm'\nhomophily = 0.75\navg-degree = 4\nfeat-dim = 6\n";
    fs::write(temp.path().join("run.toml"), file).unwrap();
    let facts = |out: &str, args: &[&str]| {
        let args = [&["generate", out, "--config", "run.toml"], args].concat();
        uvatrain(temp.path(), args).run().succeeds();
        uvatrain(temp.path(), ["info", out, "--json"]).run().succeeds().json()
    };
    let all = facts("all", &[]);
    assert_eq!((&all["nodes"], &all["classes"], &all["feature_dim"]), (&500.into(), &3.into(), &6.into()));
    let typed = facts("typed", &["--classes", "5", "--feat-dim=7"]);
    assert_eq!(
        (&typed["nodes"], &typed["classes"], &typed["feature_dim"]),
        (&500.into(), &5.into(), &7.into())
    );
    let meta = fs::read_to_string(temp.path().join("typed/meta.json")).unwrap();
    assert!(meta.contains("sbm"), "{meta}");
}

#[test]
fn the_options_in_force_are_printed_as_a_file_that_gives_the_same() {
    let temp = directory();
    let commands: [&[&str]; 6] = [
        &[
            "train",
            "--fanouts",
            "-1,5",
            "--lr",
            "0.01",
            "--slot-bytes",
            "6GiB",
            "--resume",
            "--checkpoint",
            "a \"b\"",
        ],
        &["run", "d", "--fanouts", "3", "--drop-last", "--", "python", "--config", "other.toml"],
        &["generate", "out", "--preset", "papers100m", "--scale", "0.01"],
        &["import", "a", "b", "--from", "npy", "--symmetrize", "--self-loops", "add"],
        &["bench", "sample", "d", "--threads", "2"],
        &["mps", "status", "--timeout", "5m"],
    ];
    for args in commands {
        let before = args.iter().position(|word| *word == "--").unwrap_or(args.len());
        let asked = [&args[..before], &["--print-config"][..], &args[before..]].concat();
        let first = uvatrain(temp.path(), &asked).run().succeeds();
        assert!(first.stderr.is_empty(), "{first}");
        fs::write(temp.path().join("printed.toml"), &first.stdout).unwrap();
        // The options are omitted and come from the file.
        let words = if matches!(args[0], "bench" | "mps") { 2 } else { 1 };
        let again = [&args[..words], &["--config", "printed.toml", "--print-config"]].concat();
        let second = uvatrain(temp.path(), again).run().succeeds();
        assert_eq!(first.stdout, second.stdout, "{args:?}");
        let typed = args[..before].iter().filter_map(|word| word.strip_prefix("--"));
        for option in typed.map(|option| option.replace("symmetrize", "symmetrise")) {
            assert!(first.stdout.contains(&format!("\n{option} = ")), "{option} is missing\n{first}");
        }
    }
    fs::remove_file(temp.path().join("printed.toml")).unwrap();
    assert_same_contents(&Default::default(), &contents(temp.path()));
}

#[test]
fn what_is_wrong_in_a_file_is_refused_with_its_line_and_what_is_near() {
    let cases: [(&str, &[&str]); 7] = [
        ("[train]\nepochs = 3\nfanout = 5\n", &["run.toml:3", "'fanout'", "'fanouts'"]),
        ("[trian]\n", &["run.toml:1", "'trian'", "'train'"]),
        // A section of another command than the one that runs.
        ("[info]\nverfy = true\n", &["run.toml:2", "'verfy'", "'verify'"]),
        ("[train]\nmodel = 'sge'\n", &["run.toml:2", "--model", "'sge'", "sage"]),
        ("[train]\nepochs = 'many'\n", &["run.toml:2", "--epochs", "many"]),
        ("[train\n", &["run.toml:1"]),
        ("[train]\nresume = true\n", &["--checkpoint"]),
    ];
    for (file, message) in cases {
        let temp = directory();
        fs::write(temp.path().join("run.toml"), file).unwrap();
        uvatrain(temp.path(), ["train", "d", "--config", "run.toml"]).run().refuses(2, message);
    }
    let temp = directory();
    uvatrain(temp.path(), ["train", "d", "--config", "none.toml"])
        .run()
        .refuses(2, &["--config", "none.toml"]);
    uvatrain(temp.path(), ["train", "d", "--config"]).run().refuses(2, &["--config"]);
}

// ---- suggestions, sizes, durations

#[test]
fn a_mistyped_command_option_or_value_is_answered_with_the_nearest_one() {
    let cases: [(&[&str], &[&str]); 6] = [
        (&["trian", "d"], &["'trian'", "'train'"]),
        (&["bench", "smaple"], &["'smaple'", "'sample'"]),
        (&["train", "d", "--fanout", "3"], &["--fanout", "'--fanouts'"]),
        (&["generate", "g", "--node", "3"], &["--node", "'--nodes'"]),
        (&["train", "d", "--model", "sge"], &["'sge'", "'sage'"]),
        (&["generate", "g", "--preset", "papers100"], &["papers100", "'papers100m'"]),
    ];
    for (args, message) in cases {
        let temp = directory();
        uvatrain(temp.path(), args).run().refuses(2, message);
    }
}

#[test]
fn durations_take_the_units_that_people_write() {
    let temp = directory();
    for time in ["10", "90s", "1.5m", "250ms"] {
        let args = ["mps", "status", "--print-config", "--timeout", time];
        let outcome = uvatrain(temp.path(), args).run();
        if time == "250ms" {
            outcome.refuses(2, &["--timeout", "from 1s to 10m"]);
        } else {
            outcome.succeeds();
        }
    }
    uvatrain(temp.path(), ["mps", "status", "--timeout", "5 parsecs"])
        .run()
        .refuses(2, &["--timeout", "90s"]);
}

// ---- completions and manual pages

#[test]
fn completions_have_commands_options_and_values_but_not_roles() {
    let temp = directory();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = uvatrain(temp.path(), ["completions", shell]).run().succeeds();
        for word in ["train", "bench", "fanouts", "print-config"] {
            assert!(script.stdout.contains(word), "{shell}: {word} is missing");
        }
        // The other two complete no values.
        let values = script.stdout.contains("papers100m");
        assert_eq!(values, ["bash", "zsh", "fish"].contains(&shell), "{shell}: values");
        for role in ["janitor", "planner"] {
            assert!(!script.stdout.contains(role), "{shell}: {role} is offered");
        }
    }
    uvatrain(temp.path(), ["completions", "fihs"]).run().refuses(2, &["fihs", "fish"]);
}

#[test]
fn bash_takes_the_completions_and_offers_what_fits() {
    let temp = directory();
    let script = uvatrain(temp.path(), ["completions", "bash"]).run().succeeds().stdout;
    fs::write(temp.path().join("uvatrain.bash"), script).unwrap();
    let ask = "source uvatrain.bash && COMP_WORDS=(uvatrain train data --model '') COMP_CWORD=4 && \
               _uvatrain uvatrain '' --model && echo \"${COMPREPLY[@]}\"";
    let Ok(offered) = Command::new("bash").args(["-c", ask]).current_dir(temp.path()).output() else {
        eprintln!("skipped: there is no bash");
        return;
    };
    let offered = String::from_utf8_lossy(&offered.stdout).into_owned();
    assert!(offered.split_whitespace().any(|word| word == "sage"), "{offered}");
}

#[test]
fn there_is_a_manual_page_for_every_command_and_none_for_the_roles() {
    let temp = directory();
    let page = uvatrain(temp.path(), ["man"]).run().succeeds().stdout;
    assert!(page.contains(".TH uvatrain 1"), "{page}");
    uvatrain(temp.path(), ["man", "share/man1"]).run().succeeds();
    let pages = contents(&temp.path().join("share/man1"));
    let names: Vec<String> = pages.keys().map(|path| path.display().to_string()).collect();
    for name in ["uvatrain.1", "uvatrain-train.1", "uvatrain-bench-sample.1", "uvatrain-completions.1"] {
        assert!(names.iter().any(|page| page == name), "{name} is missing: {names:?}");
    }
    assert!(!names.iter().any(|page| page.contains("janitor")), "{names:?}");
    let train = fs::read_to_string(temp.path().join("share/man1/uvatrain-train.1")).unwrap();
    assert!(train.contains("\\-\\-fanouts") && train.contains("Ctrl"), "{train}");
}

// ---- colours and pipes

#[test]
fn colours_are_for_terminals_and_no_color_takes_them_away() {
    let temp = directory();
    let refused = |variables: &[(&str, &str)]| {
        let mut call = Command::new(env!("CARGO_BIN_EXE_uvatrain"));
        call.args(["train", "d", "--fanout", "3"]).current_dir(temp.path());
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            call.env_remove(variable);
        }
        let outcome = call.envs(variables.iter().copied()).output().unwrap();
        String::from_utf8_lossy(&outcome.stderr).contains('\x1b')
    };
    assert!(!refused(&[]), "coloured in a pipe");
    assert!(refused(&[("CLICOLOR_FORCE", "1")]), "forced by CLICOLOR_FORCE");
    assert!(!refused(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), "NO_COLOR is stronger");
    assert!(!refused(&[("CLICOLOR", "0")]));

    // The program's own trace, here about the content of a file, follows the same rule.
    fs::write(temp.path().join("run.toml"), "[mps.status]\ntimeout = '5s'\n").unwrap();
    let traced = |variables: &[(&str, &str)]| {
        let call = uvatrain(temp.path(), ["mps", "status", "--config", "run.toml", "--print-config"]);
        let call = variables.iter().fold(call, |call, (name, value)| call.env(name, value));
        let outcome = call.env("UVATRAIN_LOG", "debug").run().succeeds();
        assert!(outcome.stderr.contains("run.toml:2"), "{outcome}");
        outcome.stderr.contains('\x1b')
    };
    assert!(!traced(&[("NO_COLOR", "")]), "coloured in a pipe");
    assert!(traced(&[("NO_COLOR", ""), ("CLICOLOR_FORCE", "1")]), "forced by CLICOLOR_FORCE");
    assert!(!traced(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]), "NO_COLOR is stronger");
}

#[test]
fn a_reader_that_closes_the_pipe_ends_every_command_silently() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    let commands: [&[&str]; 9] = [
        &["--help"],
        &["--version"],
        &["train", "--help"],
        &["info", "six"],
        &["info", "six", "--json"],
        &["completions", "bash"],
        &["man"],
        &["train", "--print-config"],
        &["bench", "sample", "six", "--fanouts", "2", "--batches", "1", "--json"],
    ];
    for args in commands {
        // The reader is gone before anything is written.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let outcome = Command::new(env!("CARGO_BIN_EXE_uvatrain"))
            .args(args)
            .current_dir(temp.path())
            .env("XDG_CACHE_HOME", temp.path().join("cache"))
            .stdout(writer)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success() && stderr.is_empty(), "{args:?}: {}\n{stderr}", outcome.status);
    }
}

#[test]
fn a_closed_stderr_changes_no_exit_code() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    fs::write(temp.path().join("run.toml"), "[generate]\nnodes = 50\navg-degree = 3\n").unwrap();
    let cases: [(&[&str], i32); 4] = [
        (&["generate", "g", "--config", "run.toml"], 0),
        (&["info", "nowhere"], 2),
        (&["trian"], 2),
        (&["bench", "pipeline", "six", "--fanouts", "2", "--json"], 0),
    ];
    for (args, code) in cases {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = Command::new(env!("CARGO_BIN_EXE_uvatrain"))
            .args(args)
            .current_dir(temp.path())
            .env("UVATRAIN_LOG", "trace")
            .stdout(Stdio::null())
            .stderr(OwnedFd::from(writer))
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}
