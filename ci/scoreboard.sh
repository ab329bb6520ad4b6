#!/usr/bin/env bash
# Builds the scoreboard twice, since seize's fast barrier is a feature, and runs it with the arguments.
#
# The second build has a directory of its own, so that neither undoes the other.
set -euo pipefail
cd "$(dirname "$0")/.."

manifest=benches/peers/Cargo.toml
second=benches/peers/target/second-build
cargo build --quiet --release --manifest-path "$manifest" --bin scoreboard
cargo build --quiet --release --manifest-path "$manifest" --bin scoreboard \
    --no-default-features --target-dir "$second"
exec benches/peers/target/release/scoreboard --second-build "$second/release/scoreboard" "$@"
