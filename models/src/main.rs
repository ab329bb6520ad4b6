//! Explores the cases that the command line asks for, and fails if any comes to something else than it must.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use graceperiod_models::cases;
use graceperiod_models::memory::Model;
use graceperiod_models::report::{Job, Options, run_all};

/// Explores every execution of the grace-period protocol, case by case.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only cases whose names contain this.
    #[arg(long, default_value = "")]
    case: String,
    /// Only this memory model.
    #[arg(long)]
    model: Option<ModelName>,
    /// Only what runs in about three minutes on two processors.
    #[arg(long)]
    quick: bool,
    /// List the cases and run none.
    #[arg(long)]
    list: bool,
    /// Print the counterexamples of cases that must fail, too.
    #[arg(long)]
    trace: bool,
    /// States of one run at most.
    #[arg(long, default_value_t = 20_000_000)]
    bound: usize,
    /// Runs at a time; the number of processors if absent.
    #[arg(long)]
    jobs: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModelName {
    Tso,
    Views,
    Asym,
}

impl ModelName {
    const fn model(self) -> Model {
        match self {
            Self::Tso => Model::Tso,
            Self::Views => Model::Views,
            Self::Asym => Model::Asym,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let cases = cases::all();
    let mut jobs = Vec::new();
    for case in cases.iter().filter(|c| c.name.contains(&arguments.case)) {
        let models = if arguments.quick {
            case.quick
        } else {
            case.models
        };
        let wanted = arguments.model.map(ModelName::model);
        let models = models.iter().filter(|m| wanted.is_none_or(|w| w == **m));
        jobs.extend(models.map(|&model| Job { case, model }));
    }
    if arguments.list {
        for Job { case, model } in &jobs {
            let expected = case.expected.name();
            println!(
                "{:<44} {:<6} {expected:<6} {}",
                case.name,
                model.name(),
                case.about
            );
        }
        return ExitCode::SUCCESS;
    }
    if jobs.is_empty() {
        eprintln!("no case is called so; --list names them all");
        return ExitCode::FAILURE;
    }
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let options = Options {
        bound: arguments.bound,
        jobs: arguments.jobs.unwrap_or(processors).max(1),
        traces: arguments.trace,
    };
    let begin = Instant::now();
    let summary = run_all(&jobs, options);
    println!(
        "{} runs, {} states, {} s: {} as they must, {} up to the bound, {} wrong",
        jobs.len(),
        summary.states,
        begin.elapsed().as_secs(),
        summary.right,
        summary.bounded,
        summary.wrong
    );
    if summary.wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
