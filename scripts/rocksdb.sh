# Sourced by scripts that link the RocksDB which the ordinary build has compiled, instead of
# compiling it again with their own settings.
#
# Sets CARGO_TARGET_DIR, if it isn't, to the ordinary build's. After `link_rocksdb NAME` cargo
# links its archive, and builds into NAME within the target directory: other settings of
# RocksDB beside the ordinary ones would compile it again.

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/firstseen/target}"

# The folder of the newest archive, as there may be one of an older release.
rocksdb_archive() {
    local file newest=''
    for file in "$CARGO_TARGET_DIR"/release/build/librocksdb-sys-*/out/librocksdb.a; do
        if [[ -f $file && (-z $newest || $file -nt $newest) ]]; then newest=$file; fi
    done
    if [[ -n $newest ]]; then dirname "$newest"; fi
}

link_rocksdb() {
    local lib_dir
    lib_dir=$(rocksdb_archive)
    if [[ -z $lib_dir ]]; then
        echo "$1: compiling RocksDB first"
        cargo build --release --workspace
        lib_dir=$(rocksdb_archive)
    fi
    # The stable compiler does it: RUSTC_BOOTSTRAP opens what is not stable yet.
    export RUSTC_BOOTSTRAP=1 ROCKSDB_LIB_DIR=$lib_dir ROCKSDB_STATIC=1
    export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/$1"
}
