//! What a file system says about a file.

use std::path::PathBuf;

/// What a file is called below its names; two names with the same id are hard links of one inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct InodeId {
    pub(crate) device: u64,
    pub(crate) number: u64,
}

/// Seconds and nanoseconds since 1970.
pub(crate) type Time = (i64, u32);

/// What the file system says about a file. The access time is left out: looking changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) size: u64,
    pub(crate) modified: Time,
    pub(crate) changed: Time,
    /// Where a symbolic link points.
    pub(crate) target: Option<PathBuf>,
}

impl Attributes {
    /// The attributes of a file that was just created, empty and with one name.
    pub(crate) fn empty_file() -> Self {
        Attributes {
            mode: 0o100_644,
            links: 1,
            size: 0,
            modified: (0, 0),
            changed: (0, 0),
            target: None,
        }
    }

    /// Names the fields in which two differ, with the values of either.
    pub(crate) fn differences(&self, other: &Self) -> (String, String) {
        let mut told = (Vec::new(), Vec::new());
        for ((name, mine), (_, theirs)) in self.fields().into_iter().zip(other.fields()) {
            if mine != theirs {
                told.0.push(format!("{name} {mine}"));
                told.1.push(format!("{name} {theirs}"));
            }
        }
        (told.0.join(", "), told.1.join(", "))
    }

    fn fields(&self) -> [(&'static str, String); 6] {
        let time = |(seconds, nanoseconds): Time| format!("{seconds}.{nanoseconds:09}");
        [
            ("mode", format!("{:o}", self.mode)),
            ("links", self.links.to_string()),
            ("size", self.size.to_string()),
            ("modified", time(self.modified)),
            ("changed", time(self.changed)),
            ("target", format!("{:?}", self.target)),
        ]
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }

    pub(crate) fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }
}
