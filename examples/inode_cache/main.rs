//! An inode cache like the Linux kernel's, built on `graceperiod`, and what one would write without it, side by side.
//!
//! `cargo run --release --example inode_cache` takes a tour of a minute; `--help` tells the rest. Read `inode` first for the
//! parts of an object, `cache` for the protocol, and `strategy/type_stable` for how little a strategy has to add.

#![forbid(unsafe_code)]

mod attributes;
mod cache;
mod cli;
mod command;
mod counter;
mod handle;
mod hasher;
mod inode;
mod iunique;
mod lru;
mod measure;
mod progress;
mod report;
mod store;
mod strategy;
mod superblock;
mod tour;
mod tree;
mod workload;

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::cli::Cli;
use crate::report::Report;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Before the work: a path that can't be written must not cost a minute first.
    let json = match cli.open_json() {
        Ok(json) => json,
        Err(problem) => Cli::command().error(ErrorKind::Io, problem).exit(),
    };
    let done = match &cli.command {
        None => tour::run(&cli.tour),
        Some(command) => command.run(),
    };
    match done.and_then(|report| tell(&report, json).map(|()| report.is_good())) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tell(report: &Report, json: Option<File>) -> io::Result<()> {
    io::stdout().write_all(report.table().as_bytes())?;
    for problem in report.problems() {
        eprintln!("FAILED: {problem}");
    }
    match json {
        Some(mut file) => report.write_json(&mut file),
        None => Ok(()),
    }
}
