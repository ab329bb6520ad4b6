//! The command line.

use std::fs::{File, OpenOptions};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cache::DropMode;
use crate::strategy::Strategy;

/// An inode cache like the Linux kernel's, over five ways to keep its memory.
///
/// Without a command: a tour of at most a minute through all workloads and strategies, told in one table.
#[derive(Debug, Parser)]
#[command(name = "inode_cache", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) tour: TourArgs,
}

impl Cli {
    /// Opens the result file, without touching what is in it.
    pub(crate) fn open_json(&self) -> Result<Option<File>, String> {
        let path = match &self.command {
            None => &self.tour.json,
            Some(command) => &command.common().json,
        };
        let open = |path: &PathBuf| {
            let options = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(path);
            options.map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        path.as_ref().map(open).transpose()
    }
}

#[derive(Debug, Args)]
pub(crate) struct TourArgs {
    /// Take about ten seconds, with figures to match
    #[arg(long)]
    pub(crate) quick: bool,
    /// Walk this tree [default: /usr, or the largest of a few usual places]
    #[arg(long, value_name = "DIR", value_parser = directory())]
    pub(crate) tree: Option<PathBuf>,
    /// Write the results to this file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create, open by number, unlink and close files, over and over
    CreateUnlink {
        #[command(flatten)]
        common: CommonArgs,
        /// How many files a thread creates before it unlinks them
        #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = count)]
        burst: usize,
    },
    /// Delete a cache full of files whose freeing writes a log record under the superblock's lock
    MassDelete {
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Read a real directory tree into the cache and check every look-up against the file system
    Walk {
        /// The tree
        #[arg(value_parser = directory())]
        dir: PathBuf,
        #[command(flatten)]
        common: CommonArgs,
        /// Falsify one file's size in the cache; the walk has to report it and fail
        #[arg(long)]
        plant: bool,
    },
}

impl Command {
    pub(crate) fn common(&self) -> &CommonArgs {
        let (Command::CreateUnlink { common, .. }
        | Command::MassDelete { common }
        | Command::Walk { common, .. }) = self;
        common
    }
}

#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// How many threads work [default: one per CPU, at most 8]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = threads)]
    threads: Option<usize>,
    /// How many files are in the cache (create-unlink: besides those it works on; walk: at most)
    /// [default: 16384 for create-unlink, else 100000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    objects: Option<usize>,
    /// How long each strategy is measured
    #[arg(long, value_name = "S", default_value = "2", allow_negative_numbers = true, value_parser = seconds)]
    seconds: Duration,
    /// Which strategies, separated by commas [default: all]
    #[arg(long = "strategy", value_name = "NAME", value_delimiter = ',')]
    strategies: Vec<Strategy>,
    /// How deleted inodes are dropped [default: serial; mass-delete: both]
    #[arg(long = "drop", value_name = "HOW", value_delimiter = ',')]
    drops: Vec<DropMode>,
    /// Write the results to this file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl CommonArgs {
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(default_threads)
    }

    pub(crate) fn objects(&self, default: usize) -> usize {
        self.objects.unwrap_or(default)
    }

    pub(crate) fn seconds(&self) -> Duration {
        self.seconds
    }

    pub(crate) fn strategies(&self) -> &[Strategy] {
        or_default(&self.strategies, Strategy::value_variants())
    }

    pub(crate) fn drops<'a>(&'a self, default: &'a [DropMode]) -> &'a [DropMode] {
        or_default(&self.drops, default)
    }
}

fn or_default<'a, T>(given: &'a [T], default: &'a [T]) -> &'a [T] {
    if given.is_empty() { default } else { given }
}

pub(crate) fn default_threads() -> usize {
    thread::available_parallelism()
        .map_or(1, NonZeroUsize::get)
        .min(8)
}

fn directory() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err("it is not a directory".to_owned()),
        Err(error) => Err(format!("it is not a directory one can read: {error}")),
    })
}

fn threads(text: &str) -> Result<usize, String> {
    match count(text)? {
        threads @ 1..=1024 => Ok(threads),
        _ => Err("at most 1024 threads are started".to_owned()),
    }
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse::<i64>() {
        Ok(..=0) => Err("it takes at least one".to_owned()),
        Ok(count @ ..=100_000_000) => Ok(count as usize),
        Ok(_) => Err("at most 100,000,000 are made".to_owned()),
        Err(_) => Err("it is not a whole number".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 3600.0 => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err("it must be more than 0 and at most 3600".to_owned()),
        Err(_) => Err("it is not a number of seconds".to_owned()),
    }
}
