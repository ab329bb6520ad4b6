#!/usr/bin/env bash
# Explores the grace-period protocol exhaustively, after the explorer's own checks. What is given is passed on: --quick,
# --case NAME, --model tso|views|asym, --trace, --list, --bound STATES.
set -euo pipefail
cd "$(dirname "$0")/../models"

cargo fmt --check
cargo clippy --all-targets -- -D warnings
cargo test --quiet
cargo run --release --quiet -- "$@"
