#!/usr/bin/env bash
# Runs the loom models: the tests whose path holds `loom_`, in a build where crate::sync is loom's.
# Arguments go to the test runner: `ci/loom.sh --nocapture`.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}"
# A directory of its own: the flag rebuilds every dependency.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
# Three preemptions find what loom's authors have ever seen; unbounded runs don't end in a CI's time.
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --release --lib loom_ -- "$@" 2>&1 | tee "$log"

if ! grep --quiet --extended-regexp '^test result: ok\. [1-9][0-9]* passed' "$log"; then
    echo "loom: no model ran, which proves nothing; their paths must hold loom_" >&2
    exit 1
fi
