#!/usr/bin/env bash
# Counts the instructions an id of the main paths takes, and compares them with those recorded in
# scripts/instructions.txt. Other work on the machine doesn't move such a count, so a change that
# makes a path dearer is seen on any machine, however busy. UPDATE=1 records what is counted.
#
# Callgrind runs compare/examples/instructions.rs and collects within `counted_path` alone, in the
# thread that calls it: background work isn't counted. What the system does isn't either, nor what
# a cache miss costs: a count guards, a measurement decides.
#
# The exit code is 77 where there is no valgrind: neither success nor failure.
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/firstseen/target}"
record=scripts/instructions.txt

command -v valgrind >/dev/null || scripts/prepare.sh valgrind || true
if ! command -v valgrind >/dev/null; then
    echo "SKIPPED: instructions are not counted: there is no valgrind" >&2
    exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo build --release --manifest-path compare/Cargo.toml --example instructions
TMPDIR=$work valgrind --tool=callgrind --callgrind-out-file="$work/out" \
    --collect-atstart=no --toggle-collect='*counted_path*' \
    --compress-strings=no --compress-pos=no \
    "$CARGO_TARGET_DIR/release/examples/instructions" >"$work/paths" 2>"$work/said" ||
    { cat "$work/said" >&2; exit 1; }

# A call's line names who is called; the line after it begins with a position and has its cost.
awk '
    FNR == NR && /^cfn=/ { callee = $0; sub(/^cfn=/, "", callee) }
    FNR == NR && /^calls=/ { getline; cost[callee] += $2 }
    FNR == NR { next }
    {
        count = 0
        for (callee in cost)
            if (callee ~ "::path_" $1 "(::h[0-9a-f]+)?$") count += cost[callee]
        if (count == 0) {
            print "instructions: nothing was counted of " $1 >"/dev/stderr"
            exit 1
        }
        printf "%s %.1f\n", $1, count / $2
    }' "$work/out" "$work/paths" >"$work/counts"
[[ -s $work/counts ]] || { echo "instructions: no path ran" >&2; exit 1; }

rustc=$(rustc --version)
if [[ -n ${UPDATE:-} ]]; then
    {
        sed -n '/^#/p' "$record"
        grep '^tolerance_percent ' "$record"
        echo "rustc ${rustc#rustc }"
        cat "$work/counts"
    } >"$work/record"
    cp "$work/record" "$record"
    echo "recorded in $record:"
    cat "$work/counts"
    exit
fi

grep -qxF "rustc ${rustc#rustc }" "$record" ||
    echo "note: recorded with another compiler: $(grep '^rustc ' "$record")"
# First the record, then what was counted.
awk -v record="$record" '
    FNR == NR && /^#/ { next }
    FNR == NR && $1 == "tolerance_percent" { tolerance = $2; next }
    FNR == NR && $1 == "rustc" { next }
    FNR == NR { recorded[$1] = $2; next }
    FNR == 1 { printf "%-22s %10s %10s %8s\n", "instructions an id", "recorded", "now", "change" }
    !($1 in recorded) {
        printf "%-22s is not in %s: UPDATE=1 records it\n", $1, record
        failed = 1
        next
    }
    {
        change = 100 * ($2 / recorded[$1] - 1)
        says = ""
        if (change > tolerance) { says = "DEARER"; failed = 1 }
        if (change < -tolerance) says = "cheaper: UPDATE=1 records it"
        printf "%-22s %10.1f %10.1f %+7.1f%% %s\n", $1, recorded[$1], $2, change, says
        delete recorded[$1]
    }
    END {
        for (name in recorded) {
            printf "%-22s was not counted\n", name
            failed = 1
        }
        if (failed) {
            print "more than " tolerance " % dearer, or not the same paths; if that is meant," \
                " record it: UPDATE=1 make instructions"
        }
        exit failed
    }' "$record" "$work/counts"
