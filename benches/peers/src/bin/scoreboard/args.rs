//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::lanes::Round;
use crate::payload::MOST_LANES;
use crate::row;
use crate::sections::{self, Section};

/// Measures graceperiod and its peers in turn, in one run on one machine.
#[derive(Debug, Parser)]
#[command(name = "scoreboard", version)]
pub struct Options {
    /// Measure only this section; may be repeated
    #[arg(long = "section", value_name = "NAME", value_parser = section)]
    pub sections: Vec<&'static Section>,
    /// Measure only this contender and the floors; may be repeated (`liburcu` stands for all its variants)
    #[arg(long = "contender", value_name = "NAME")]
    pub contenders: Vec<String>,
    /// Numbers of threads, where the section lets one choose
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = threads)]
    pub threads: Vec<usize>,
    /// 3 repeats of 50 ms and stalls of 0.2 s, instead of 7 of 100 ms and 2 s
    #[arg(long)]
    pub quick: bool,
    /// Write the rows to a file as JSON; `-` writes them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw section `mix` as SVG into this directory
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// List the sections and stop
    #[arg(long)]
    pub list: bool,
    /// A scoreboard built without feature `seize-fast-barrier`, for the row `seize`
    #[arg(long, value_name = "PROGRAM")]
    pub second_build: Option<PathBuf>,
    /// Measure in this process what would get one of its own
    ///
    /// A contender's name then means no other variant of it.
    #[arg(long, hide = true)]
    pub in_process: bool,
    /// Measure only the rows of so many threads
    #[arg(long, hide = true)]
    pub row_threads: Option<usize>,
}

fn section(name: &str) -> Result<&'static Section, String> {
    let known = || {
        sections::ALL
            .iter()
            .map(|section| section.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = sections::ALL.iter().find(|section| section.name == name);
    found.ok_or_else(|| format!("no such section; there are {}", known()))
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads) if (1..=MOST_LANES).contains(&threads) => Ok(threads),
        _ => Err(format!(
            "a number of threads from 1 to {MOST_LANES} is wanted"
        )),
    }
}

impl Options {
    /// The sections to measure.
    pub fn chosen(&self) -> Vec<&'static Section> {
        if self.sections.is_empty() {
            sections::ALL.iter().collect()
        } else {
            self.sections.clone()
        }
    }

    /// The numbers of threads: those asked for, else `usual`.
    pub fn threads_or(&self, usual: &[usize]) -> Vec<usize> {
        if self.threads.is_empty() {
            usual.to_vec()
        } else {
            self.threads.clone()
        }
    }

    /// Whether a contender is to be measured.
    pub fn names(&self, contender: &str) -> bool {
        let is_family = |asked: &String| !self.in_process && asked == row::family(contender);
        let is_it = |asked: &String| asked == contender || is_family(asked);
        self.contenders.is_empty() || self.contenders.iter().any(is_it)
    }

    /// Timed samples per contender.
    pub fn repeats(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }

    /// Counted samples per contender.
    pub fn counted_repeats(&self) -> usize {
        if self.quick { 1 } else { 5 }
    }

    /// The shape of a sample.
    pub fn round(&self) -> Round {
        let duration = Duration::from_millis(if self.quick { 50 } else { 100 });
        Round {
            duration,
            warm_up: duration / 10,
        }
    }

    /// How long a reader stalls.
    pub fn stall(&self) -> Duration {
        Duration::from_millis(if self.quick { 200 } else { 2_000 })
    }

    /// What is passed on to another process that measures for this one: everything, or one row.
    pub fn for_child(&self, row_threads: Option<usize>) -> Vec<OsString> {
        let mut args = Vec::new();
        if self.quick {
            args.push("--quick".into());
        }
        if let Some(threads) = row_threads {
            args.push("--in-process".into());
            args.push("--row-threads".into());
            args.push(threads.to_string().into());
        }
        if !self.threads.is_empty() {
            let list: Vec<String> = self.threads.iter().map(usize::to_string).collect();
            args.push("--threads".into());
            args.push(list.join(",").into());
        }
        args
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options, String> {
        let all = ["scoreboard"].iter().chain(args);
        Options::try_parse_from(all).map_err(|error| error.to_string())
    }

    #[test]
    fn unknown_section_is_refused_with_the_known_ones() {
        let error = parse(&["--section", "gaurd"]).unwrap_err();
        assert!(
            error.contains("gaurd") && error.contains("guard-deref"),
            "{error}"
        );
    }

    #[test]
    fn no_threads_at_all_are_refused() {
        let error = parse(&["--threads", "0"]).unwrap_err();
        assert!(error.contains("from 1 to"), "{error}");
        assert!(parse(&["--threads", "many"]).is_err());
    }

    #[test]
    fn sections_and_threads_may_be_several() {
        let options = parse(&[
            "--section",
            "guard",
            "--section",
            "update",
            "--threads",
            "1,4",
        ]);
        let options = options.unwrap();
        let names: Vec<_> = options
            .chosen()
            .iter()
            .map(|section| section.name)
            .collect();
        assert_eq!(names, ["guard", "update"]);
        assert_eq!(options.threads_or(&[2]), [1, 4]);
    }

    #[test]
    fn without_a_section_all_are_meant() {
        assert_eq!(parse(&[]).unwrap().chosen().len(), sections::ALL.len());
    }

    #[test]
    fn family_stands_for_its_variants() {
        let options = parse(&["--contender", "liburcu"]).unwrap();
        assert!(options.names("liburcu:memb") && !options.names("kovan"));
        let options = parse(&["--contender", "liburcu", "--in-process"]).unwrap();
        assert!(!options.names("liburcu:memb"));
        let options = parse(&["--contender", "liburcu:bp"]).unwrap();
        assert!(options.names("liburcu:bp") && !options.names("liburcu:memb"));
    }

    #[test]
    fn child_is_given_what_shapes_the_samples() {
        let options = parse(&["--quick", "--threads", "1,2", "--json", "rows"]).unwrap();
        let expected = [
            "--quick",
            "--in-process",
            "--row-threads",
            "2",
            "--threads",
            "1,2",
        ];
        assert_eq!(options.for_child(Some(2)), expected);
        assert_eq!(options.for_child(None), ["--quick", "--threads", "1,2"]);
    }
}
