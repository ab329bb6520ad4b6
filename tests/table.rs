//! Claims about the table, made through the public API alone.
#![forbid(unsafe_code)]

#[path = "table/between.rs"]
mod between;
#[path = "table/common.rs"]
mod common;
#[path = "table/faults.rs"]
mod faults;
#[path = "table/handles.rs"]
mod handles;
#[path = "table/races.rs"]
mod races;
#[path = "table/single.rs"]
mod single;
