#!/usr/bin/env bash
# Runs the unit and integration tests under ThreadSanitizer.
# Arguments go to cargo test: `ci/tsan.sh --test stress`. Needs nightly Rust; without it the check
# fails instead of passing unseen.
#
# ThreadSanitizer knows no fences: an edge that a fence makes looks like a race to it, so `--cfg tsan`
# asks for loads that say the same.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "tsan: needs nightly Rust: rustup toolchain install nightly" >&2
    exit 1
fi

host=$(rustc +nightly -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
# The standard library stays uninstrumented, which rustc calls an ABI mismatch unless told otherwise.
# The false alarms that come of it are listed in tsan.supp.
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp ${TSAN_OPTIONS:-}"
export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg tsan ${RUSTFLAGS:-}"

if [ $# -eq 0 ]; then
    set -- --lib --tests
fi
cargo +nightly test --target "$host" "$@"
