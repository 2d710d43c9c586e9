#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# python_wheel.sh - does the wheel work in a fresh virtual environment?
#
#     sh tests/python_wheel.sh SOURCES PYTHON FOLDER
#
# Builds it with the packages of PYTHON, which needs scikit-build-core (else the
# test is skipped), installs it without any other package, and runs the command,
# the check at import, and a tuned database in the package's own folder, which
# nobody may write to and which stands behind the user's.
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
# If auditwheel is installed, tests the wheel as it would be published.
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
here = os.path.dirname(os.path.abspath(spctune.__file__))
assert _lib.library_path.startswith(here), _lib.library_path
found = spctune.explain("subm,cin=16,cout=16,k=3,dtype=f32", 1000, device="cpu")
print("import, version", spctune.__version__, "and explain:", found.kernel)
assert any(f.endswith(".db") for _, _, files in os.walk(here) for f in files), \
    "no tuned database is in the wheel"
END

# Shipped records are found in the package, reading them writes no files next to
# them, and the user's database comes first.
layer=subm,cin=16,cout=16,k=3,dtype=f32
venv/bin/spctune -q -d cpu --database "$folder/ships.db" tune "$layer" \
    --scene gen:uniform,n=2000,extent=20 --effort quick --limit 20 >tuned.txt
share=$(venv/bin/python -c 'import os, spctune
print(os.path.dirname(os.path.abspath(spctune.__file__)) + "/share/spctune")')
name=$(venv/bin/python -c 'import spctune
print([d["name"] for d in spctune.devices() if d["id"] == "cpu"][0])' |
    tr ' ' '-')
venv/bin/spctune -q -d cpu --database "$folder/ships.db" db pack \
    "$share/$name.db" >/dev/null
chmod a-w "$share" "$share/$name.db"
before=$(ls "$share")
SPC_DATABASE=$folder/empty.db venv/bin/python - "$layer" <<'END'
import sys
import spctune
found = spctune.explain(sys.argv[1], 2000, pairs=16000, device="cpu")
print("in the package:", found.match, found.kernel)
assert found.match in ("exact", "bucket", "nearest"), found
spctune.options(shipped="")
spctune.context._contexts.clear()
bare = spctune.explain(sys.argv[1], 2000, pairs=16000, device="cpu")
assert bare.match == "default", bare
END
[ "$(ls "$share")" = "$before" ] || {
    echo "something was written beside the database that ships"
    exit 1
}
chmod u+w "$share"
