#!/usr/bin/env bash
# Runs the unit and integration tests under AddressSanitizer and its leak check.
# Arguments go to cargo test: `ci/asan.sh --test stress`. Needs nightly Rust; without it the check
# fails instead of passing unseen.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "asan: needs nightly Rust: rustup toolchain install nightly" >&2
    exit 1
fi

# The target is named so that build scripts and procedural macros stay uninstrumented.
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/asan"
export RUSTFLAGS="-Zsanitizer=address ${RUSTFLAGS:-}"

if [ $# -eq 0 ]; then
    set -- --lib --tests
fi
cargo +nightly test --target "$host" "$@"
