#!/usr/bin/env bash
# Create or update the environment VENV with the pinned packages: `make setup` calls it.
#
# Every file is checked against the hashes of the lock files. Only torch may come from elsewhere:
#   TORCH_INDEX=URL  take the pinned version from this index (a GPU build, say), and what it needs
#                    besides the lock files, whose hashes do not cover it
#   TORCH=skip       use the torch that the system's Python has (a vendor's container)
# Whatever fails or is interrupted, run it again: what is installed by then was checked, too.
# ONLY=packages installs what Unisono needs to run, and neither Unisono nor what its development
# needs: a container image has Unisono in a layer of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${VENV:-.venv} python=${PYTHON:-python3} doing="making the environment"
trap '[ $? -eq 0 ] || echo "setup: $doing failed, see above; then run it again" >&2' EXIT

pip() { "$venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
# pip's reports say which files were taken, with their hashes: tools/sbom.py reads them.
report() { mktemp "$venv/reports/XXXXXX.json"; }
# A source archive would run its own program, so only wheels are taken, here and below.
locked() {
    doing="installing from $1"
    pip install --no-deps --only-binary :all: --require-hashes --report "$(report)" --requirement "$1"
}
pin() { sed -n 's/^\(torch==[^ ]*\).*/\1/p' "$1"; }

if [ "${TORCH:-}" = skip ]; then
    "$python" -m venv --system-site-packages "$venv"
else
    "$python" -m venv "$venv"
fi
mkdir -p "$venv/reports"
locked requirements-build.lock
locked requirements.lock
[ "${ONLY:-}" = packages ] || locked requirements-dev.lock
if [ "${TORCH:-}" = skip ]; then
    echo "setup: torch is the system's"
elif [ -n "${TORCH_INDEX:-}" ]; then
    echo "setup: torch is from $TORCH_INDEX; our hashes do not cover it"
    doing="installing torch from $TORCH_INDEX"
    pip install --only-binary :all: --report "$(report)" --index-url "$TORCH_INDEX" \
        "$(pin requirements-cuda.lock)"
elif pip download --no-deps --only-binary :all: --dest "$venv/found" "$(pin requirements-cpu.lock)" >/dev/null 2>&1; then
    locked requirements-cpu.lock
else
    echo "setup: no $(pin requirements-cpu.lock) in pip's index; taking PyPI's build for CUDA"
    locked requirements-cuda.lock
fi
rm -rf "$venv/found"
if [ "${ONLY:-}" = packages ]; then exit; fi
doing="installing Unisono itself"
pip install --no-build-isolation --no-deps --editable .
[ "${TORCH:-}" = skip ] || pip check
"$venv/bin/python" -c 'import torch; print("setup: torch", torch.__version__)'
