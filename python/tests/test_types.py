# SPDX-License-Identifier: Apache-2.0
"""Checks the package with mypy."""

import importlib.util
import os
import subprocess
import sys
import unittest

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The folder beside the suites' database, if there is one.
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
