#!/usr/bin/env bash
# Looks through the tracked files for what no compiler refuses: paths of one machine, tests and doc
# examples that are switched off, and lints that are silenced for good.
#
# Each pattern is written so that it does not match its own line here.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0

refuse() {
    local pattern=$1 advice=$2
    # 0: a match, to be refused; 1: none; anything else: the search itself went wrong.
    local status=0
    git grep --line-number --extended-regexp -e "$pattern" || status=$?
    case $status in
    0)
        echo "hygiene: the lines above must go: $advice" >&2
        failed=1
        ;;
    1) ;;
    *)
        echo "hygiene: git grep failed with $status" >&2
        exit "$status"
        ;;
    esac
}

refuse '(^|[^[:alnum:]_.])/(roo[t]|hom[e]|User[s]|tm[p]|wor[k])/' \
    'a path of one machine; use a path relative to the manifest, or std::env::temp_dir()'
refuse '#\[ignor[e]' 'a test that never runs; make it cheap enough to run, or a recipe of its own'
refuse '//[/!] ```.*ignor[e]|^```.*ignor[e]' 'a doc example that nobody compiles; use no_run or text'
refuse '\ballo[w]\(' 'a lint silenced for good; use expect(lint, reason = "...")'
refuse '\b(TOD[O]|FIXM[E]|XX[X])\b' 'a note without a plan; finish it, or file it as an issue'

exit "$failed"
