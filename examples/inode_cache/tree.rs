//! Real directory trees: what the file system says about them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::attributes::{Attributes, InodeId};
use crate::progress::Progress;

/// One path, and what stood there during the scan.
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) id: InodeId,
    pub(crate) attributes: Attributes,
}

#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) entries: Vec<Entry>,
    /// Different inodes among the entries; fewer than entries where files have hard links.
    pub(crate) inodes: usize,
    /// Paths that could not be read, or vanished during the scan.
    pub(crate) skipped: usize,
}

impl Tree {
    /// Reads the tree below `root`, but at most `limit` paths of it.
    pub(crate) fn scan(root: &Path, limit: usize, progress: &mut Progress) -> io::Result<Tree> {
        let root = root.canonicalize()?;
        let (id, attributes) = stat(&root)?;
        let mut tree = Tree::default();
        tree.entries.push(Entry {
            path: root.clone(),
            id,
            attributes,
        });
        let mut directories = vec![root];
        while let Some(directory) = directories.pop() {
            let before = tree.entries.len();
            if tree
                .scan_directory(&directory, limit, &mut directories)
                .is_err()
            {
                tree.skipped += 1;
            }
            progress.advance(tree.entries.len() - before);
            if tree.entries.len() >= limit {
                break;
            }
        }
        tree.inodes = tree
            .entries
            .iter()
            .map(|entry| entry.id)
            .collect::<HashSet<_>>()
            .len();
        Ok(tree)
    }

    fn scan_directory(
        &mut self,
        directory: &Path,
        limit: usize,
        directories: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        for name in fs::read_dir(directory)? {
            if self.entries.len() >= limit {
                break;
            }
            let path = name?.path();
            let Ok((id, attributes)) = stat(&path) else {
                self.skipped += 1;
                continue;
            };
            if attributes.is_directory() {
                directories.push(path.clone());
            }
            self.entries.push(Entry {
                path,
                id,
                attributes,
            });
        }
        Ok(())
    }
}

/// Reads what the file system says about a path, without following a symbolic link.
#[cfg(unix)]
pub(crate) fn stat(path: &Path) -> io::Result<(InodeId, Attributes)> {
    use std::os::unix::fs::MetadataExt;

    let metadata = fs::symlink_metadata(path)?;
    let target = if metadata.is_symlink() {
        Some(fs::read_link(path)?)
    } else {
        None
    };
    let attributes = Attributes {
        mode: metadata.mode(),
        links: u32::try_from(metadata.nlink()).unwrap_or(u32::MAX),
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec() as u32),
        changed: (metadata.ctime(), metadata.ctime_nsec() as u32),
        target,
    };
    Ok((
        InodeId {
            device: metadata.dev(),
            number: metadata.ino(),
        },
        attributes,
    ))
}

/// The standard library tells inode numbers on Unix only.
#[cfg(not(unix))]
pub(crate) fn stat(_path: &Path) -> io::Result<(InodeId, Attributes)> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "a walk needs a system with inode numbers",
    ))
}

/// Returns `/usr`, or where that is small or absent the largest of a few usual places.
pub(crate) fn usual_place(enough: usize) -> io::Result<PathBuf> {
    let places = [
        "/usr", "/Library", "/System", "/opt", "/home", "/Users", "/nix", "/gnu", "/var", ".",
    ];
    let mut best = (0, PathBuf::from("."));
    for place in places
        .map(PathBuf::from)
        .into_iter()
        .filter(|place| place.is_dir())
    {
        let size = Tree::scan(&place, enough, &mut Progress::silent())?
            .entries
            .len();
        if size > best.0 {
            best = (size, place);
        }
        if size >= enough {
            break;
        }
    }
    Ok(best.1)
}
