#!/usr/bin/env bash
# Fuzzes every target in fuzz/fuzz_targets, one after another: scripts/fuzz.sh SECONDS [TARGET...]
#
# The fuzzer instruments Rust code only, so the RocksDB that the ordinary build has compiled is
# linked as it is. The stable compiler does it (RUSTC_BOOTSTRAP), without a sanitizer: RocksDB's
# C++ has none to match. A failing input stays in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

secs=${1:-60}
shift || true
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/firstseen/target}"

# The folder of the newest archive, as there may be one of an older release.
archive() {
    local file newest=''
    for file in "$CARGO_TARGET_DIR"/release/build/librocksdb-sys-*/out/librocksdb.a; do
        if [[ -f $file && (-z $newest || $file -nt $newest) ]]; then newest=$file; fi
    done
    if [[ -n $newest ]]; then dirname "$newest"; fi
}

lib_dir=$(archive)
if [[ -z $lib_dir ]]; then
    echo "fuzz: compiling RocksDB first"
    cargo build --release --workspace
    lib_dir=$(archive)
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz: installing cargo-fuzz"
    cargo install cargo-fuzz --locked
fi

# The binding must be of the version whose archive is linked.
cp Cargo.lock fuzz/Cargo.lock

export RUSTC_BOOTSTRAP=1 ROCKSDB_LIB_DIR=$lib_dir ROCKSDB_STATIC=1
# Apart from the ordinary builds: other settings of RocksDB there would compile it again.
export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/fuzz"

if (($# == 0)); then
    for file in fuzz/fuzz_targets/*.rs; do
        set -- "$@" "$(basename "$file" .rs)"
    done
fi
for target in "$@"; do
    echo "fuzz: $target for $secs s"
    mkdir -p "fuzz/corpus/$target"
    seeds=()
    if [[ -d fuzz/seeds/$target ]]; then seeds=("fuzz/seeds/$target"); fi
    cargo fuzz run --sanitizer none "$target" "fuzz/corpus/$target" ${seeds[@]+"${seeds[@]}"} -- \
        -max_total_time="$secs" -timeout=20 -print_final_stats=1
done
