# SPDX-License-Identifier: Apache-2.0
"""The command `spctune` of the wheel: starts the program in the wheel."""

import os
import sys


def main() -> None:
    """Replaces this process by the program; does not return."""
    here = os.path.dirname(os.path.abspath(__file__))
    program = os.path.join(here, "bin", "spctune")
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"spctune: cannot start {program}: {error.strerror}; "
            "install the spctune package again"
        )


if __name__ == "__main__":
    main()
