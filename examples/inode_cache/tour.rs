//! The tour: every workload over every strategy, in a minute.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;

use crate::cache::DropMode;
use crate::cli::{TourArgs, default_threads};
use crate::command::{OLD_FILES, scan};
use crate::measure::Field;
use crate::report::Report;
use crate::strategy::Strategy;
use crate::tree::usual_place;
use crate::workload::create_unlink::CreateUnlink;
use crate::workload::mass_delete::MassDelete;
use crate::workload::walk::Walk;

/// The sizes of a tour.
struct Sizes {
    length: Duration,
    deleted: usize,
    paths: usize,
}

const FULL: Sizes = Sizes {
    length: Duration::from_millis(1200),
    deleted: 50_000,
    paths: 100_000,
};
const QUICK: Sizes = Sizes {
    length: Duration::from_millis(200),
    deleted: 5_000,
    paths: 20_000,
};

pub(crate) fn run(args: &TourArgs) -> io::Result<Report> {
    let sizes = if args.quick { QUICK } else { FULL };
    let threads = default_threads();
    let root = match &args.tree {
        Some(tree) => tree.clone(),
        None => usual_place(sizes.paths)?,
    };
    let tree = Arc::new(scan(&root, sizes.paths)?);
    let field = Field {
        workload: "create/unlink",
        strategies: Strategy::value_variants(),
        drops: &[DropMode::Serial],
        length: sizes.length,
    };
    let mut rows = field.measure(&CreateUnlink {
        threads,
        objects: OLD_FILES,
        burst: 1,
    });
    let drops = &[DropMode::Serial, DropMode::Deferred];
    let plan = MassDelete {
        threads,
        objects: sizes.deleted,
    };
    rows.extend(
        Field {
            workload: "mass delete",
            drops,
            ..field
        }
        .measure(&plan),
    );
    rows.extend(
        Field {
            workload: "walk",
            ..field
        }
        .measure(&Walk {
            threads,
            tree,
            planted: None,
        }),
    );
    Ok(Report::new(threads, rows))
}
