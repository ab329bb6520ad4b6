//! The example `inode_cache`, run as a program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Finds the program that `cargo test` has built beside this test.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("tests live in <profile>/deps");
    let name = format!("inode_cache{}", std::env::consts::EXE_SUFFIX);
    let program = profile.join("examples").join(name);
    assert!(
        program.exists(),
        "first build it: cargo build --example inode_cache"
    );
    program
}

fn run(arguments: &[&str]) -> Output {
    Command::new(program())
        .args(arguments)
        .output()
        .expect("the example starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("the example exits by itself")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory of this test's own, empty.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("the target directory is writable");
    directory
}

fn json(file: &Path) -> Value {
    let text = fs::read_to_string(file).expect("the example wrote the file");
    serde_json::from_str(&text).expect("the file is JSON")
}

/// Runs a command with `--json` and returns the rows, after checking that it succeeded.
fn rows(name: &str, arguments: &[&str]) -> Vec<Value> {
    let file = scratch(name).join("result.json");
    let output = run(&[arguments, &["--json", file.to_str().expect("a plain path")]].concat());
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let rows = json(&file)["rows"]
        .as_array()
        .expect("rows are an array")
        .clone();
    for row in &rows {
        assert!(row["operations_per_second"].as_f64() > Some(0.0), "{row}");
        let zero = serde_json::json!({ "nr_inodes": 0, "nr_unused": 0, "hashed": 0, "waiting": 0 });
        assert_eq!(
            (&row["at_end"], &row["problems"]),
            (&zero, &serde_json::json!([]))
        );
    }
    rows
}

#[test]
fn bad_arguments_end_with_a_sentence_and_code_2() {
    let file = scratch("not_a_directory").join("file");
    fs::write(&file, "").expect("the target directory is writable");
    let file = file.to_str().expect("a plain path");
    let unwritable = format!("{file}/result.json");
    let cases: &[(&[&str], &str)] = &[
        (&["create-unlink", "--threads", "0"], "at least one"),
        (
            &["create-unlink", "--threads", "many"],
            "not a whole number",
        ),
        (&["create-unlink", "--threads", "5000"], "at most 1024"),
        (&["create-unlink", "--burst", "0"], "at least one"),
        (&["mass-delete", "--objects", "0"], "at least one"),
        (&["mass-delete", "--seconds", "-1"], "more than 0"),
        (&["mass-delete", "--seconds", "0"], "more than 0"),
        (&["mass-delete", "--strategy", "magic"], "magic"),
        (&["mass-delete", "--drop", "never"], "never"),
        (&["mass-delete", "--json", &unwritable], "cannot write"),
        (&["walk"], "DIR"),
        (&["walk", file], "not a directory"),
        (&["walk", "/no/such/place"], "not a directory"),
        (&["dance"], "dance"),
        (&["--json", &unwritable], "cannot write"),
        (&["--tree", file], "not a directory"),
    ];
    for (arguments, expected) in cases {
        let output = run(arguments);
        let told = text(&output.stderr);
        assert_eq!(code(&output), 2, "{arguments:?}: {told}");
        assert!(told.contains(expected), "{arguments:?}: {told}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

#[test]
fn create_unlink_runs_every_strategy_and_leaves_nothing() {
    let arguments = [
        "create-unlink",
        "--seconds",
        "0.05",
        "--objects",
        "500",
        "--burst",
        "8",
        "--drop",
        "serial,deferred",
    ];
    let rows = rows("create_unlink", &arguments);
    assert!(rows.len() >= 4 && rows.len().is_multiple_of(2));
    let best = rows
        .iter()
        .filter(|row| row["ratio_to_better_lock"].as_f64() == Some(1.0))
        .count();
    assert!(best >= 2, "the better lock of each half is its own measure");
}

#[test]
fn mass_delete_runs_every_strategy_and_leaves_nothing() {
    let rows = rows(
        "mass_delete",
        &[
            "mass-delete",
            "--seconds",
            "0.05",
            "--objects",
            "3000",
            "--threads",
            "3",
        ],
    );
    let drops: Vec<_> = rows.iter().filter_map(|row| row["drop"].as_str()).collect();
    assert!(drops.contains(&"serial") && drops.contains(&"deferred"));
}

#[cfg(unix)]
mod walk {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Makes 60 files in three directories, a third of them with a second name, and some symbolic links.
    fn small_tree(name: &str) -> PathBuf {
        let root = scratch(name).join("tree");
        for directory in ["a", "b", "b/c"] {
            fs::create_dir_all(root.join(directory)).expect("the target directory is writable");
            for number in 0..20 {
                let file = root.join(directory).join(format!("file{number}"));
                fs::write(&file, vec![b'x'; number]).expect("the tree is writable");
                if number % 3 == 0 {
                    fs::hard_link(
                        &file,
                        root.join(format!("a/link{number}-{}", directory.replace('/', "-"))),
                    )
                    .expect("the file system has hard links");
                }
                if number % 5 == 0 {
                    symlink(
                        format!("nowhere{number}"),
                        root.join(directory).join(format!("symlink{number}")),
                    )
                    .expect("the file system has symbolic links");
                }
            }
        }
        root
    }

    #[test]
    fn every_strategy_agrees_with_the_file_system_while_inodes_come_and_go() {
        let tree = small_tree("agree");
        let tree = tree.to_str().expect("a plain path");
        for row in rows(
            "agree_json",
            &["walk", tree, "--seconds", "0.25", "--threads", "3"],
        ) {
            let walk = &row["walk"];
            // 4 directories, 60 files, 21 more names for them, 12 symbolic links.
            assert_eq!(
                (walk["paths"].as_u64(), walk["inodes"].as_u64()),
                (Some(97), Some(76)),
                "{walk}"
            );
            assert!(walk["evictions"].as_u64() > Some(100), "{walk}");
            assert!(walk["reads"].as_u64() > Some(176), "{walk}");
            assert_eq!(
                (walk["changed"].as_u64(), walk["mismatched"].as_u64()),
                (Some(0), Some(0)),
                "{walk}"
            );
        }
    }

    #[test]
    fn a_planted_mismatch_is_reported_with_its_path() {
        let tree = small_tree("plant");
        let file = scratch("plant_json").join("result.json");
        let arguments = [
            "walk",
            tree.to_str().expect("a plain path"),
            "--seconds",
            "0.05",
            "--plant",
            "--json",
        ];
        let output = run(&[&arguments[..], &[file.to_str().expect("a plain path")]].concat());
        assert_eq!(code(&output), 1);
        for row in json(&file)["rows"].as_array().expect("rows are an array") {
            let mismatch = &row["walk"]["mismatches"][0];
            let path = mismatch["path"].as_str().expect("a mismatch has a path");
            assert!(
                Path::new(path).starts_with(&tree) && Path::new(path).exists(),
                "{path}"
            );
            assert!(
                mismatch["cached"]
                    .as_str()
                    .expect("it says what is cached")
                    .starts_with("size")
            );
            assert!(
                text(&output.stderr).contains(path),
                "{}",
                text(&output.stderr)
            );
        }
    }

    #[test]
    fn files_that_change_during_the_walk_are_no_false_alarm() {
        let tree = small_tree("change");
        let file = scratch("change_json").join("result.json");
        let arguments = [
            "walk",
            tree.to_str().expect("a plain path"),
            "--seconds",
            "0.5",
            "--json",
        ];
        let mut walk = Command::new(program())
            .args(arguments)
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the example starts");
        let mut size = 100;
        while walk
            .try_wait()
            .expect("the child can be waited for")
            .is_none()
        {
            size += 1;
            fs::write(tree.join("a/file1"), vec![b'y'; size]).expect("the tree is writable");
            fs::write(tree.join("b/come-and-go"), "").expect("the tree is writable");
            fs::remove_file(tree.join("b/come-and-go")).expect("it was just made");
        }
        assert!(walk.wait().expect("it has ended").success());
        let changed: u64 = json(&file)["rows"]
            .as_array()
            .expect("rows are an array")
            .iter()
            .filter_map(|row| row["walk"]["changed"].as_u64())
            .sum();
        assert!(changed > 0);
    }
}
