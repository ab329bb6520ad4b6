#!/usr/bin/env bash
# Weakens one ordering at a time, or leaves one fence out, and sees a loom model fail.
#
#   ci/weaken.sh            everything; records in ci/weaken.ok what it has found
#   ci/weaken.sh O2 O3      only these edges
#   ci/weaken.sh --changed  only what differs from ci/weaken.ok, within 20 minutes
#
# Every `edge!` in src is a site; one build serves all (src/sync/edge.rs). A site's models are those that bear the name
# of one of its edges, then the others of its module, then all that are left, of those that reach it at all; the first
# that fails has caught it. What no model catches survives, and docs/orderings.md must argue it, by its label, in the list
# of argued survivors. Changes that no ordering expresses stand in ci/weaken.list as substitutions, each with a build of
# its own.
set -euo pipefail
cd "$(dirname "$0")/.."

ok=ci/weaken.ok
docs=docs/orderings.md
export LOOM_MAX_PREEMPTIONS=3
# Seconds for one model, and for all of a run on what has changed.
model_limit=120
changed_limit=1100
too_long="too much differs from $ok for this step; run all of it by: just weaken"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() { echo "weaken: $*" >&2; exit 1; }

hashes() { git ls-files 'src/*.rs' 'ci/weaken*' | grep -vx "$ok" | xargs sha256sum; }

# The files that differ from the record, or have come; "all" if what changed concerns every site.
changed_files() {
    [ -f "$ok" ] || { echo all; return; }
    hashes | sort | comm -23 - <(grep '^[0-9a-f]\{64\}  ' "$ok" | sort) | sed 's/^[0-9a-f]*  //' >"$work/changed"
    if grep -qE '^(src/sync|ci/weaken(\.sh|_sites\.pl)$)' "$work/changed"; then echo all; else cat "$work/changed"; fi
}

# Keeps the sites of changed files, those of the modules whose models changed, and those whose argument came or went.
keep_changed() {
    local files directory
    files=$(changed_files)
    [ "$files" != all ] || { cp "$work/sites" "$work/picked"; return; }
    : >"$work/picked"
    for file in $files; do
        directory=$(dirname "$file")
        case $file in
        src/*models.rs)
            awk -F'\t' -v of="$directory" '{ at = "src/" $4 } index(at, of "/") == 1 || at == of ".rs"' "$work/sites"
            ;;
        src/*) awk -F'\t' -v of="$file" '"src/" $4 == of' "$work/sites" ;;
        esac >>"$work/picked"
    done
    sed -n 's/^argued  //p' "$ok" | sort | comm -3 - "$work/argued" | tr -d '\t' >"$work/moved"
    awk -F'\t' 'NR == FNR { moved[$0]; next } $1 in moved' "$work/moved" "$work/sites" >>"$work/picked"
    sort -u -o "$work/picked" "$work/picked"
}

# Prints the path of the models' program: `build TARGET_DIRECTORY PACKAGE`.
build() {
    local built
    RUSTFLAGS="--cfg loom --cfg weaken" CARGO_TARGET_DIR="$PWD/$1" \
        cargo test --release --lib --no-run --manifest-path "$2/Cargo.toml" >"$work/build" 2>&1 ||
        { tail -40 "$work/build" >&2; return 1; }
    built=$(sed -n 's/.*Executable.*(\(.*\))$/\1/p' "$work/build")
    case $built in /*) echo "$built" ;; *) echo "$PWD/$built" ;; esac
}

# The models that reach a site, in the order in which it tries them: `models_for EDGES FILE SITE`.
models_for() {
    local edges=$1 module=${2%%/*} place=${3%:*}
    module=${module%.rs}
    perl -e '
        my ($edges, $module, $list, $place, $reached) = @ARGV;
        my %edge = map { lc $_ => 1 } split " ", $edges;
        open my $reaching, "<", $reached or die;
        my %reaches = map { /^(\S+)\t\Q$place\E$/ ? ($1 => 1) : () } <$reaching>;
        open my $models, "<", $list or die;
        my @ranked = map {
            chomp; my ($cost, $name) = split /\t/; my ($last) = $name =~ /(\w+)$/;
            my $named = grep { $edge{$_} } split /_/, $last;
            my $near = $name =~ /^\Q$module\E::/;
            [ ($near ? 0 : 1) + ($named ? 0 : 2), $cost, $name ]
        } <$models>;
        print "$_->[2]\n" for grep { $reaches{ $_->[2] } } sort { $a->[0] <=> $b->[0] or $a->[1] <=> $b->[1] } @ranked;
    ' "$edges" "$module" "$work/models" "$place" "$work/reached"
}

# Weakens one site and writes down what came of it. Runs beside others of its kind.
try_site() {
    local label site edges file model log status found=unreached
    # Once the script has ended, by a signal, nothing more may be tried or told: 255 ends xargs.
    [ -s "$work/models" ] || exit 255
    IFS=$'\t' read -r label site edges file <<<"$1"
    log=$(mktemp -p "$work")
    while read -r model; do
        status=0
        GRACEPERIOD_WEAKEN=$site timeout --signal=KILL "$model_limit" \
            "$program" --exact "$model" --test-threads=1 >"$log" 2>&1 </dev/null || status=$?
        [ -f "$log" ] || exit 255
        case $status in
        0) [ "$found" = undecided ] || found=survivor ;;
        124 | 137) found=undecided ;;
        101 | 134 | 139) found=caught; break ;;
        *) found=broken; break ;;
        esac
    done < <(models_for "$edges" "$file" "$site")
    [ "$found" = caught ] || model='no model'
    printf '%s\t%s\t%s\t%s\n' "$found" "$label" "$model" \
        "$(grep -A1 'panicked at' "$log" | grep -m1 -v 'panicked at\|^--$\|(mock) TLS' | cut -c1-100)" | tee -a "$work/results" |
        awk -F'\t' '{ printf "%-9s %s  (%s: %s)\n", $1, $2, $3, $4 }'
    rm -f "$log"
}

# Looks at the models as they are, at how long each takes, and at which sites it reaches.
time_models() {
    local model begin
    "$program" --list 2>/dev/null | sed -n 's/: test$//p' | grep loom_ >"$work/names" || die "the build holds no model"
    while read -r model; do
        begin=$(date +%s%N)
        GRACEPERIOD_WEAKEN=none "$program" --exact "$model" --test-threads=1 >"$work/log" 2>&1 </dev/null ||
            { cat "$work/log" >&2; die "$model fails with nothing weakened"; }
        printf '%s\t%s\n' "$((($(date +%s%N) - begin) / 1000000))" "$model"
        sed -n "s/.*reached \(src.*\)/$model\t\1/p" "$work/log" >>"$work/reached"
    done <"$work/names" >"$work/models"
}

# Applies each substitution of ci/weaken.list to a copy, where it must change its file and fail its models.
substitute() {
    local copy=$work/copy edge file change models mutant status
    mkdir "$copy"
    cp -r Cargo.toml src README.md "$copy"
    [ ! -f Cargo.lock ] || cp Cargo.lock "$copy"
    while IFS='|' read -r edge file change models; do
        case $edge in '' | '#'*) continue ;; esac
        edge=$(xargs <<<"$edge") file=$(xargs <<<"$file") models=$(xargs <<<"$models")
        change=$(sed 's/^ *//; s/ *$//' <<<"$change")
        is_wanted "${edge#=}" "$file" || continue
        [ "$mode" != changed ] || [ "$SECONDS" -lt "$changed_limit" ] || die "$too_long"
        perl -0pi -e "$change" "$copy/src/$file"
        ! cmp -s "src/$file" "$copy/src/$file" || die "$edge: this no longer applies to src/$file: $change"
        mutant=$(build target/weaken/mutant "$copy") || die "$edge: this doesn't build: $change"
        if timeout 600 "$mutant" "$models" >"$work/log" 2>&1; then
            status=survivor
        elif grep -q panicked "$work/log"; then
            status=caught
        else
            tail -20 "$work/log" >&2
            die "$edge: the models did not run"
        fi
        printf '%s\t%s\n' "$status" "$edge $file $change" | tee -a "$work/results"
        cp "src/$file" "$copy/src/$file"
    done <ci/weaken.list
}

# Whether a substitution is asked for.
is_wanted() {
    case $mode in
    all) true ;;
    changed) [ "$(changed_files)" = all ] || changed_files | grep -qxE "src/$2|ci/weaken.list" ;;
    edges) [[ " ${wanted[*]} " == *" $1 "* ]] ;;
    esac
}

mode=all wanted=()
case ${1:-} in
'') ;;
--changed) mode=changed ;;
*) mode=edges wanted=("$@") ;;
esac

hashes >"$work/hashes"
git ls-files 'src/*.rs' | grep -v '^src/sync' | xargs perl ci/weaken_sites.pl | sort >"$work/sites"
[ -s "$work/sites" ] || die "found no site"
sed -n 's/^- `\(O[0-9][^`]*\)`.*/\1/p' "$docs" | sort >"$work/argued"
cut -f1 "$work/sites" | sort | comm -13 - "$work/argued" >"$work/stale"
[ ! -s "$work/stale" ] || die "$docs argues what is no site: $(cat "$work/stale")"
case $mode in
all) cp "$work/sites" "$work/picked" ;;
changed) keep_changed ;;
edges) awk -F'\t' -v want="${wanted[*]}" 'BEGIN { n = split(want, w, " "); for (i = 1; i <= n; i++) of[w[i]] }
    { n = split($3, e, " "); for (i = 1; i <= n; i++) if (e[i] in of) { print; next } }' "$work/sites" >"$work/picked" ;;
esac

: >"$work/results"
if [ -s "$work/picked" ]; then
    program=$(build target/weaken .) || die "the weakened build fails"
    time_models
    export program work model_limit
    export -f try_site models_for
    limit=0
    [ "$mode" != changed ] || limit=$changed_limit
    tr '\n' '\0' <"$work/picked" |
        timeout "$limit" xargs -0 -n 1 -P "$(nproc)" bash -c 'try_site "$1" 2>/dev/null' try ||
        die "$too_long"
fi
substitute

failed=0
count() { awk -F'\t' -v of="$1" '$1 == of' "$work/results" | wc -l; }
while IFS=$'\t' read -r found label _; do
    if [[ $label == =* ]] || grep -qxF "$label" "$work/argued"; then
        [ "$found" != caught ] || { echo "weaken: $docs argues what is caught: $label" >&2; failed=1; }
    elif [ "$found" != caught ]; then
        echo "weaken: $found: $label" >&2
        failed=1
    fi
done <"$work/results"
echo "weaken: $(wc -l <"$work/results") weakened, $(count caught) caught," \
    "$(count survivor) survived, $(count unreached) unreached, $(wc -l <"$work/argued") argued in all; $SECONDS s"
[ "$failed" -eq 0 ] || exit 1
if [ "$mode" = all ]; then
    sed 's/^/argued  /' "$work/argued" | cat "$work/hashes" - >"$ok"
fi
