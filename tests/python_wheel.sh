#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# python_wheel.sh - does the wheel work in a fresh virtual environment?
#
#     sh tests/python_wheel.sh SOURCES PYTHON FOLDER
#
# Builds it with the packages of PYTHON, which needs scikit-build-core (else the
# test is skipped), installs it without any other package, and runs the command,
# the check at import, and a layer whose features are bytes of this script.
set -eu
sources=$1 python=$2 folder=$3
"$python" -c 'import scikit_build_core, venv' 2>/dev/null || {
    echo "skipped: $python has no scikit-build-core"
    exit 77
}
rm -rf "$folder"
mkdir -p "$folder"
"$python" -m pip wheel -q --no-deps --no-build-isolation --no-index \
    -w "$folder" "$sources/python"
wheel=$(ls "$folder"/spctune-*-py3-none-*.whl)
echo "$(basename "$wheel"): $(wc -c <"$wheel") bytes"
for library in libspc libspclab libspc_import; do
    count=$("$python" -m zipfile -l "$wheel" | grep -c "/$library\.so" || true)
    [ "$count" = 1 ] || {
        echo "$library is in the wheel $count times"
        exit 1
    }
done
# Where auditwheel is installed, the wheel is tested as it would be published.
if "$python" -m auditwheel --version >/dev/null 2>&1; then
    PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair \
        --exclude 'libspc*' -w "$folder" "$wheel" >"$folder/repair.log" 2>&1
    wheel=$(ls "$folder"/spctune-*-manylinux*.whl)
    echo "$(basename "$wheel"): $(wc -c <"$wheel") bytes"
fi
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --no-deps --no-index "$wheel"
unset SPC_LIBRARY PYTHONPATH
SPC_DATABASE=$folder/wheel.db
export SPC_DATABASE
cd "$folder"
venv/bin/spctune version || venv/bin/spctune --version
venv/bin/python - <<'END'
import os
import spctune
from spctune import _lib
here = os.path.dirname(spctune.__file__)
assert _lib.library_path.startswith(here), _lib.library_path
found = spctune.explain("subm,cin=16,cout=16,k=3,dtype=f32", 1000, device="cpu")
print("import, version", spctune.__version__, "and explain:", found.kernel)
assert any(f.endswith(".db") for _, _, files in os.walk(here) for f in files), \
    "no tuned database is in the wheel"
END
