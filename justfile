# Every check by name; `.ci/run` calls the same ones. `just` alone lists them.

set shell := ["bash", "-euo", "pipefail", "-c"]

[private]
default:
    @just --list --unsorted

# all that a change must pass, as CI runs it
ci:
    bash .ci/run

# bring rustfmt and clippy
setup:
    bash ci/setup.sh

# no machine paths, switched-off tests or silenced lints in tracked files
hygiene:
    bash ci/hygiene.sh

# formatting, as rustfmt.toml has it
fmt:
    cargo fmt --all --check

# lints on every target and feature
clippy:
    cargo clippy --all-targets --all-features -- -D warnings

# unit, integration and documentation tests
test *ARGS:
    cargo test {{ ARGS }}

# the tests with every slab in a debug mode: `just slab-debug quarantine`, `just slab-debug recycle-at-once`, or both
slab-debug *ARGS:
    bash ci/slab-debug.sh {{ ARGS }}

# the rules of the source tree: layers, orderings, edges, sizes
layering:
    cargo test --test layering

# documentation without a warning, public and private
doc:
    bash ci/doc.sh

# the loom models
loom *ARGS:
    bash ci/loom.sh {{ ARGS }}

# the grace-period protocol, exhaustively: `just explore --quick` as CI does, `--case naive --trace` for counterexamples
explore *ARGS:
    bash ci/explore.sh {{ ARGS }}

# each ordering weakened in turn; a model must fail: `just weaken O2 O3` for some edges
weaken *ARGS:
    bash ci/weaken.sh {{ ARGS }}

# the protocol on real hardware, with every object poisoned after one grace period
stress SECONDS="600":
    GRACEPERIOD_STRESS_SECONDS={{ SECONDS }} cargo test --release --test protocol -- --nocapture

# every example, built
examples:
    cargo build --release --examples

# the inode cache's tour, in its quick form
tour:
    cargo run --release --example inode_cache -- --quick

# what crates.io would get, built from its archive
package:
    cargo package

# AddressSanitizer (nightly Rust)
asan *ARGS:
    bash ci/asan.sh {{ ARGS }}

# ThreadSanitizer (nightly Rust)
tsan *ARGS:
    bash ci/tsan.sh {{ ARGS }}

# the benches beside the peers, only compiled, and the scoreboard's tests
bench-check:
    cargo clippy --manifest-path benches/peers/Cargo.toml --all-targets -- -D warnings
    cargo clippy --manifest-path benches/peers/Cargo.toml --no-default-features --bin scoreboard -- -D warnings
    cargo test --manifest-path benches/peers/Cargo.toml --bin scoreboard

# the benches beside the peers: `just bench --bench slab`
bench *ARGS:
    cargo bench --manifest-path benches/peers/Cargo.toml {{ ARGS }}

# graceperiod beside its peers in one run: `just scoreboard --quick --section guard --json rows.json`
scoreboard *ARGS:
    bash ci/scoreboard.sh {{ ARGS }}
