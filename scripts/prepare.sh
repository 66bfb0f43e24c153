#!/usr/bin/env bash
# Checks for what a build needs: cargo, a C++ compiler, libclang. What the system's package manager
# has is installed when it is missing; what can't be installed is named, and the script fails.
# `prepare.sh xfs` checks for the maker of XFS file systems instead, which power cuts need, and
# `prepare.sh valgrind` for valgrind, which counts instructions.
#
# libclang is looked for in the places that the binding generator of RocksDB looks in: first
# LIBCLANG_PATH and nothing else when it is set, then llvm-config, the library paths and the
# system's folders. Any name of the shared library will do, as it is loaded at run time.
set -euo pipefail
shopt -s nullglob

library_in() {
    local IFS='' file # no splitting: a folder's name may have spaces
    # shellcheck disable=SC2086,SC2231 # the argument is a pattern
    for file in $1/libclang.so $1/libclang.so.* $1/libclang-*.so $1/libclang-*.so.* \
        $1/libclang.dylib; do
        # libclang-cpp is another library with a similar name.
        if [[ -e $file && $file != *-cpp.* ]]; then return 0; fi
    done
    return 1
}

# The library needs the compiler's own headers (stddef.h), which some systems package apart.
headers() {
    local found=(/usr/lib*/clang/*/include/stddef.h /usr/lib/llvm*/lib*/clang/*/include/stddef.h
        /usr/local/lib*/clang/*/include/stddef.h /usr/local/llvm*/lib*/clang/*/include/stddef.h)
    command -v clang >/dev/null || ((${#found[@]} > 0))
}

libclang() {
    if [[ -n ${LIBCLANG_PATH:-} ]]; then
        [[ -f $LIBCLANG_PATH ]] || library_in "$LIBCLANG_PATH"
        return
    fi
    headers || return 1
    local places=() paths=() prefix place
    if prefix=$("${LLVM_CONFIG_PATH:-llvm-config}" --prefix 2>/dev/null); then
        places+=("$prefix/lib" "$prefix/lib64")
    fi
    IFS=: read -ra paths <<<"${LD_LIBRARY_PATH:-}:${LIBRARY_PATH:-}"
    for place in "${paths[@]}"; do
        if [[ -n $place ]]; then places+=("$place"); fi
    done
    places+=('/usr/local/llvm*/lib*' '/usr/local/lib*/*/*' '/usr/local/lib*/*' '/usr/local/lib*'
        '/usr/lib*' '/usr/lib*/*' '/usr/lib*/*/*'
        '/usr/local/opt/llvm*/lib' /Library/Developer/CommandLineTools/usr/lib
        /Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib)
    for place in "${places[@]}"; do
        if library_in "$place"; then return 0; fi
    done
    return 1
}

xfs() {
    command -v mkfs.xfs >/dev/null
}

has_valgrind() {
    command -v valgrind >/dev/null
}

compiler() {
    command -v "${CXX:-c++}" >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null
}

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "prepare: run this as root: $*" >&2
        return 1
    fi
}

# Installs what check $1 asks for; $2 is its name.
install() {
    local apt=libclang-dev dnf=clang-devel apk=clang-dev pacman=clang brew=llvm
    if [[ $1 == compiler ]]; then
        apt=g++ dnf=gcc-c++ apk=g++ pacman=gcc brew=gcc
    elif [[ $1 == xfs ]]; then
        apt=xfsprogs dnf=xfsprogs apk=xfsprogs pacman=xfsprogs brew=xfsprogs
    elif [[ $1 == has_valgrind ]]; then
        apt=valgrind dnf=valgrind apk=valgrind pacman=valgrind brew=valgrind
    fi
    echo "prepare: no $2 here; installing it" >&2
    if command -v apt-get >/dev/null; then
        as_root apt-get update &&
            as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y --no-install-recommends "$apt"
    elif command -v dnf >/dev/null; then
        as_root dnf install -y "$dnf"
    elif command -v yum >/dev/null; then
        as_root yum install -y "$dnf"
    elif command -v apk >/dev/null; then
        as_root apk add "$apk"
    elif command -v pacman >/dev/null; then
        as_root pacman -S --noconfirm --needed "$pacman"
    elif command -v brew >/dev/null; then
        brew install "$brew"
    else
        return 1
    fi
}

need() {
    local what=$1 name=$2 hint=$3
    if "$what"; then return; fi
    if [[ $what == libclang && -n ${LIBCLANG_PATH:-} ]]; then
        hint="LIBCLANG_PATH is $LIBCLANG_PATH, which has none: correct it or unset it."
    elif install "$what" "$name" && "$what"; then
        return
    fi
    echo "prepare: $name is missing. $hint" >&2
    exit 1
}

if [[ ${1:-} == xfs ]]; then
    need xfs "mkfs.xfs" "Install it (xfsprogs)."
    exit
fi
if [[ ${1:-} == valgrind ]]; then
    need has_valgrind "valgrind" "Install it (valgrind)."
    exit
fi
if ! command -v cargo >/dev/null; then
    echo "prepare: cargo is missing. Install Rust 1.95 or later with rustup." >&2
    exit 1
fi
need compiler "C++ compiler" \
    "Install GCC 11 or Clang 14 or later (Debian: g++; Fedora: gcc-c++; Alpine: g++; Arch: gcc)."
need libclang "libclang" \
    "Install it (Debian: libclang-dev; Fedora: clang-devel; Alpine: clang-dev; Arch: clang;
macOS: brew install llvm). Where it is in a place of its own, name the folder:
export LIBCLANG_PATH=/path/to/lib"
