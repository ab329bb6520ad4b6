#!/usr/bin/env bash
# Runs the tests with every slab in a debug mode, each of which finds what the other hides. The first
# argument names the mode, or `both`; further ones go to cargo test: `ci/slab-debug.sh quarantine --test slab`.
set -euo pipefail
cd "$(dirname "$0")/.."

modes=${1:-both}
[ $# -eq 0 ] || shift
if [ "$modes" = both ]; then
    modes="recycle-at-once quarantine"
fi
if [ $# -eq 0 ]; then
    set -- --lib --tests
fi
for mode in $modes; do
    echo "slab-debug: $mode"
    GRACEPERIOD_SLAB_DEBUG=$mode cargo test "$@"
done
