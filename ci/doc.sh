#!/usr/bin/env bash
# Builds the documentation twice with every warning an error: as users see it, and with the private
# items, whose links would rot unseen.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTDOCFLAGS="-D warnings ${RUSTDOCFLAGS:-}"
target=${CARGO_TARGET_DIR:-target}

# The second pass has a directory of its own, so that `cargo doc --open` keeps showing the first.
cargo doc --no-deps --all-features
CARGO_TARGET_DIR="$target/doc-private" cargo doc --no-deps --all-features --document-private-items
