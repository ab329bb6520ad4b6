//! The scoreboard: graceperiod and its peers, measured in turn in one run.
//!
//! Contenders of a section are interleaved round robin, so that what the machine does meanwhile lands on all of them;
//! threads are pinned. Times are medians over repeats. Figures of two runs don't compare: ratios to the floor of the
//! same run do, and a few per cent mean nothing.
//!
//! Backlog and delay come from passes of their own, in which every object is counted when it is made and when it is
//! dropped; the timed passes count nothing.

mod args;
mod backlog;
mod board;
mod contenders;
mod lanes;
mod machine;
mod payload;
mod plot;
mod row;
mod scheme;
mod sections;
mod stats;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

use args::Options;
use board::{Card, Failure};
use row::Row;

fn main() -> ExitCode {
    let options = Options::parse();
    if options.list {
        for section in sections::ALL {
            println!("{:<16} {}", section.name, section.about);
        }
        return ExitCode::SUCCESS;
    }
    abort_on_panic();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scoreboard: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Has a lane that panics end the process, for which the other lanes would wait for ever.
fn abort_on_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        std::process::exit(101);
    }));
}

fn run(options: &Options) -> Result<(), Failure> {
    let is_quiet = options.json.as_deref() == Some(Path::new("-"));
    let chosen = options.chosen();
    let cards: Vec<Card> = chosen
        .iter()
        .map(|section| Card {
            section: section.name,
            entries: (section.entries)(options),
        })
        .collect();
    check_contenders(options, &cards)?;
    if options.plot.is_some() && !chosen.iter().any(|section| section.name == "mix") {
        return Err("--plot draws section mix, which is not asked for".into());
    }
    if !is_quiet {
        tell_what_is_left_out(options);
    }
    let mut rows = Vec::new();
    for (section, card) in chosen.iter().zip(cards) {
        let own = card.measure(options)?;
        if !is_quiet {
            println!("\n{}: {}\n", section.name, section.about);
            print!("{}", row::to_table(&own, lanes::is_oversubscribed_row));
        }
        rows.extend(own);
    }
    write(options, &rows)
}

/// Refuses names that no chosen section knows.
fn check_contenders(options: &Options, cards: &[Card]) -> Result<(), Failure> {
    let entries = || cards.iter().flat_map(|card| &card.entries);
    for asked in &options.contenders {
        let knows = |name: &str| name == asked || row::family(name) == asked;
        if !entries().any(|entry| knows(&entry.contender)) {
            let known: BTreeSet<&str> = entries()
                .map(|entry| row::family(&entry.contender))
                .collect();
            let known: Vec<&str> = known.into_iter().collect();
            let known = known.join(", ");
            return Err(format!("no contender `{asked}` there; there are {known}").into());
        }
    }
    Ok(())
}

fn tell_what_is_left_out(options: &Options) {
    if cfg!(not(liburcu)) {
        println!(
            "liburcu was not there when this was built: its rows are left out \
             (Debian: liburcu-dev, then touch benches/peers/build.rs)"
        );
    }
    if options.second_build.is_none() {
        println!(
            "one build only: seize is measured as it was built (`just scoreboard` builds both)"
        );
    }
}

fn write(options: &Options, rows: &[Row]) -> Result<(), Failure> {
    match options.json.as_deref() {
        Some(path) if path == Path::new("-") => print!("{}", row::to_json(rows)),
        Some(path) => {
            fs::write(path, row::to_json(rows))
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        None => {}
    }
    if let Some(directory) = &options.plot {
        fs::create_dir_all(directory)?;
        plot::draw(rows, directory)?;
    }
    Ok(())
}
