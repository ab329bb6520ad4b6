//! What the benches beside this file share: they run one group of contenders each and tell the ratios.
//!
//! Criterion measures one contender after the other and cannot interleave them, so whatever the machine
//! does in between lands on one of them alone. Ratios are therefore told only between contenders of one
//! run, never against numbers that an earlier run left behind, and a few per cent mean nothing. They
//! are of one thread: what contention does is not measured here.

use std::{fs, path::Path, time::SystemTime};

use criterion::Criterion;
use serde_json::Value;

/// The contender that the others are held against.
pub const OURS: &str = "graceperiod";

/// Measures what `bench` adds to `group`, then prints each contender's time and its ratio to [`OURS`].
///
/// Contenders that a filter on the command line left out are not told.
pub fn run(group: &str, bench: impl FnOnce(&mut Criterion)) {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/criterion");
    let started = SystemTime::now();
    let mut criterion = Criterion::default()
        .output_directory(&results)
        .configure_from_args();
    bench(&mut criterion);
    criterion.final_summary();
    print_ratios(group, &medians(&results.join(group), started));
}

/// The medians in nanoseconds that were written after `started`, by contender.
fn medians(group: &Path, started: SystemTime) -> Vec<(String, f64)> {
    let mut medians = Vec::new();
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        let estimates = entry.path().join("new/estimates.json");
        let is_new = |written: SystemTime| written >= started;
        if !fs::metadata(&estimates)
            .and_then(|file| file.modified())
            .is_ok_and(is_new)
        {
            continue;
        }
        let text = fs::read_to_string(&estimates).expect("criterion wrote its estimates as text");
        let estimates: Value = serde_json::from_str(&text).expect("criterion wrote JSON");
        let median = estimates["median"]["point_estimate"].as_f64();
        let name = entry.file_name().to_string_lossy().into_owned();
        medians.push((name, median.expect("criterion estimates the median")));
    }
    medians.sort_by(|a, b| a.1.total_cmp(&b.1));
    medians
}

fn print_ratios(group: &str, medians: &[(String, f64)]) {
    let Some((_, ours)) = medians.iter().find(|(name, _)| name == OURS) else {
        return;
    };
    println!("\n{group}, medians of this run:");
    for (name, median) in medians {
        println!(
            "  {name:<28} {median:>10.2} ns   {:>6.2} x {OURS}",
            median / ours
        );
    }
    println!();
}
