#!/usr/bin/env bash
# Weakens one ordering or fence at a time and sees the loom model of its edge fail.
#
# Each line of ci/weaken.list names an edge, a file, a Perl substitution that must change the file exactly once, and the
# models to run. A line whose models still pass is a survivor; the script lists them and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
only=${1:-}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r Cargo.toml src README.md "$copy"/ 2>/dev/null || cp -r Cargo.toml src "$copy"/
[ -f Cargo.lock ] && cp Cargo.lock "$copy"/
sed -i '/^\[\[bench\]\]/,$d; /^\[dev-dependencies\]/,/^$/d' "$copy/Cargo.toml"
export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$PWD/target/weaken" LOOM_MAX_PREEMPTIONS=3
survivors=0 tried=0
while IFS='|' read -r edge file change models; do
  case "$edge" in ''|'#'*) continue ;; esac
  edge=$(echo "$edge" | xargs) file=$(echo "$file" | xargs) models=$(echo "$models" | xargs)
  change=$(echo "$change" | sed 's/^ *//; s/ *$//')
  [ -n "$only" ] && [[ "${edge#=}" != $only* ]] && continue
  cp "src/$file" "$copy/src/$file"
  perl -0pi -e "$change" "$copy/src/$file"
  if cmp -s "src/$file" "$copy/src/$file"; then
    echo "$edge: the change no longer applies to src/$file: $change"; exit 1
  fi
  tried=$((tried + 1))
  if (cd "$copy" && timeout 300 cargo test -q --release --lib "$models" >"$copy/log" 2>&1); then
    case "$edge" in
      =*) echo "argued   ${edge#=}: $change" ;;
      *) echo "SURVIVOR $edge: $change"; survivors=$((survivors + 1)) ;;
    esac
  elif [[ "$edge" == =* ]]; then
    echo "$edge: is caught after all; take the = away"; exit 1
  elif ! grep -qE "panicked|SIGABRT|SIGSEGV" "$copy/log"; then
    echo "$edge: did not run:"; tail -20 "$copy/log"; exit 1
  else
    echo "caught   $edge: $change"
  fi
  cp "src/$file" "$copy/src/$file"
done <ci/weaken.list
echo "$tried weakened, $survivors survived"
[ "$tried" -gt 0 ] && [ "$survivors" -eq 0 ]
