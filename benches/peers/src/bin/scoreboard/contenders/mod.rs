//! The contenders, one file per origin.

pub mod arc_swap;
mod boxed;
pub mod crossbeam;
pub mod floor;
pub mod graceperiod;
pub mod haphazard;
pub mod kovan;
#[cfg(liburcu)]
pub mod liburcu;
pub mod rwlock;
pub mod sdd;
pub mod seize;
