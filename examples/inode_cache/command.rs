//! The commands that run one workload.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::attributes::InodeId;
use crate::cache::DropMode;
use crate::cli::{Command, CommonArgs};
use crate::measure::Field;
use crate::progress::Progress;
use crate::report::Report;
use crate::tree::Tree;
use crate::workload::Plan;
use crate::workload::create_unlink::CreateUnlink;
use crate::workload::mass_delete::MassDelete;
use crate::workload::walk::Walk;

/// Old files in the cache while others come and go.
pub(crate) const OLD_FILES: usize = 16_384;

/// Files to delete, or paths to walk.
const FILES: usize = 100_000;

impl Command {
    pub(crate) fn run(&self) -> io::Result<Report> {
        let threads = self.common().threads();
        match self {
            Command::CreateUnlink { common, burst } => {
                let plan = CreateUnlink {
                    threads,
                    objects: common.objects(OLD_FILES),
                    burst: *burst,
                };
                Ok(measure("create/unlink", &plan, common, &[DropMode::Serial]))
            }
            Command::MassDelete { common } => {
                let plan = MassDelete {
                    threads,
                    objects: common.objects(FILES),
                };
                Ok(measure(
                    "mass delete",
                    &plan,
                    common,
                    &[DropMode::Serial, DropMode::Deferred],
                ))
            }
            Command::Walk { dir, common, plant } => {
                let tree = scan(dir, common.objects(FILES))?;
                let planted = if *plant {
                    Some(choose_plant(&tree)?)
                } else {
                    None
                };
                let plan = Walk {
                    threads,
                    tree: Arc::new(tree),
                    planted,
                };
                Ok(measure("walk", &plan, common, &[DropMode::Serial]))
            }
        }
    }
}

/// Reads a tree, showing how far it has come.
pub(crate) fn scan(root: &Path, limit: usize) -> io::Result<Tree> {
    let mut progress = Progress::new(format!("reading {}", root.display()), limit);
    Tree::scan(root, limit, &mut progress)
}

fn measure(
    workload: &'static str,
    plan: &impl Plan,
    common: &CommonArgs,
    drops: &[DropMode],
) -> Report {
    let field = Field {
        workload,
        strategies: common.strategies(),
        drops: common.drops(drops),
        length: common.seconds(),
    };
    Report::new(common.threads(), field.measure(plan))
}

fn choose_plant(tree: &Tree) -> io::Result<InodeId> {
    let files: Vec<InodeId> = tree
        .entries
        .iter()
        .filter(|entry| entry.attributes.is_file())
        .map(|entry| entry.id)
        .collect();
    match files.get(files.len() / 2) {
        Some(&id) => Ok(id),
        None => Err(io::Error::other(
            "there is no regular file in the tree to falsify",
        )),
    }
}
