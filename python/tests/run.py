# SPDX-License-Identifier: Apache-2.0
"""Runs test modules of this folder for ctest.

    python3 python/tests/run.py MODULE...

Ends with 77, which ctest shows as skipped, if every test was skipped.
"""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> int:
    package = os.path.dirname(HERE)
    sys.path[:0] = [HERE, package, os.path.join(package, "examples")]
    try:
        suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:])
    except unittest.SkipTest as reason:  # of a whole test module
        print(f"skipped: {reason}")
        return 77
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    for reason in sorted({reason for _, reason in result.skipped}):
        print("skipped: " + reason)
    if not result.wasSuccessful():
        return 1
    ran = result.testsRun - len(result.skipped)
    return 0 if ran > 0 else 77


if __name__ == "__main__":
    sys.exit(main())
