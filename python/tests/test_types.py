# SPDX-License-Identifier: Apache-2.0
"""mypy finds nothing wrong in the package."""

import importlib.util
import os
import subprocess
import sys
import unittest

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Beside the database of the suites, where they have one.
CACHE = os.environ.get("SPC_DATABASE", "") + ".mypy"
CACHE = os.devnull if CACHE == ".mypy" else CACHE
MISSING = [
    name
    for name in ("mypy", "torch", "numpy")
    if importlib.util.find_spec(name) is None
]


class Types(unittest.TestCase):
    @unittest.skipIf(MISSING, "not installed: " + ", ".join(MISSING))
    def test_mypy(self):
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--cache-dir", CACHE],
            cwd=PACKAGE,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
