//! The program's scenario cases: each case in `tests/cases/<suite>/<topic>.json` is a test named
//! `<suite>/<topic>::<name>`. The format is described in `README.md` beside this file.

mod case;
mod expand;
mod matching;
mod members;
mod run;
mod server;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use self::case::Read;
use self::members::Result;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut trials = Vec::new();
    for (suite, topic, file) in files(&root) {
        let place = format!("{suite}/{topic}");
        match case::read(&file) {
            Ok(cases) => {
                let mut names = HashSet::new();
                for read in cases {
                    let name = format!("{place}::{}", read.name);
                    let fresh = names.insert(read.name.clone());
                    trials.push(trial(name, move || match fresh {
                        true => checked(read),
                        false => Err("a second case of this name".to_owned()),
                    }));
                }
            }
            Err(fault) => trials.push(trial(place, || Err(fault))),
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: String, run: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, || Ok(run()?))
}

/// A case with `fails_with` shows that the runner finds a fault: each of its variants must fail,
/// with an error that contains this.
fn checked(read: Read) -> Result<()> {
    let Some(wanted) = read.fails_with else {
        return run::run(&read.case?);
    };
    let found = match read.case {
        Err(fault) => vec![Err(fault)],
        Ok(case) => case.each_variant().map(|case| run::run(&case)).collect(),
    };
    let unlike = |found: &Result<()>| !found.as_ref().is_err_and(|error| error.contains(&wanted));
    match found.into_iter().find(unlike) {
        None => Ok(()),
        Some(found) => Err(format!("does not fail with {wanted:?}: {found:?}")),
    }
}

/// All case files: suite, topic and path.
fn files(root: &Path) -> Vec<(String, String, PathBuf)> {
    let mut found = Vec::new();
    let listed = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let text =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    for folder in listed(root) {
        for file in listed(&folder) {
            let topic = text(file.file_stem());
            if topic != "suite" && file.extension().is_some_and(|own| own == "json") {
                found.push((text(folder.file_name()), topic, file));
            }
        }
    }
    found
}
