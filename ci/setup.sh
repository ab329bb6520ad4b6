#!/usr/bin/env bash
# Brings the parts of the toolchain that the checks call, and says which versions they run with.
set -euo pipefail

if ! command -v cargo >/dev/null; then
    echo "setup: no cargo on the PATH; install Rust 1.88 or newer first (https://rustup.rs)" >&2
    exit 1
fi

for component in rustfmt clippy; do
    if "cargo-${component/rustfmt/fmt}" --version >/dev/null 2>&1; then
        continue
    fi
    echo "setup: adding $component"
    if ! rustup component add "$component"; then
        echo "setup: $component is missing and rustup could not add it" >&2
        exit 1
    fi
done

cargo --version
rustc --version
cargo fmt --version
cargo clippy --version
