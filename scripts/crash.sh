#!/usr/bin/env bash
# The long crash tests: crash (kills), powercut, faults. How often is read from KILLS, CUTS,
# CUTS_XFS and CYCLES; SEED repeats a run. Each prints one line of counts.
#
# Power cuts need root, loop devices and the file systems' makers. What can't run is named, and
# the exit code is then 77: neither success nor failure.
set -euo pipefail
cd "$(dirname "$0")/.."

features=${FEATURES:-cli,raw,testing,failpoints,metrics,tracing}

# Runs the crash tests whose names begin so; shows their counts.
crash() {
    cargo test --release --workspace --features "$features" --test crash -- --nocapture "$@"
}

missing() {
    [[ $(id -u) == 0 ]] || { echo "mounting needs root" && return; }
    [[ -e /dev/loop-control ]] || { echo "there are no loop devices" && return; }
    local program
    for program in "mkfs.$1" mount umount unshare; do
        command -v "$program" >/dev/null || { echo "there is no $program" && return; }
    done
}

powercut() {
    local cuts=${CUTS:-300} fs why skipped=0
    local -A count=([ext4]=$cuts [xfs]=${CUTS_XFS:-$((cuts / 3))})
    [[ $(id -u) != 0 ]] || command -v mkfs.xfs >/dev/null || scripts/prepare.sh xfs || true
    for fs in ext4 xfs; do
        ((${count[$fs]} > 0)) || continue
        why=$(missing "$fs")
        if [[ -n $why ]]; then
            echo "SKIPPED: ${count[$fs]} power cuts on $fs: $why" >&2
            skipped=77
            count[$fs]=0
        fi
    done
    if ((count[ext4] + count[xfs] > 0)); then
        CUTS=${count[ext4]} CUTS_XFS=${count[xfs]} crash cut::on_
    fi
    return "$skipped"
}

case ${1:-} in
crash) KILLS=${KILLS:-1000} crash kill::nothing ;;
powercut) powercut ;;
faults) CYCLES=${CYCLES:-5000} crash fault::nothing ;;
*)
    echo "usage: $0 crash | powercut | faults" >&2
    exit 2
    ;;
esac
