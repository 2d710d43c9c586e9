# SPDX-License-Identifier: Apache-2.0
"""The command `spctune` and the programs beside it, for benchmarks."""

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))


class Failed(Exception):
    """A command that failed, with its last line."""


def default_command() -> Optional[str]:
    """Returns the command beside the library that the package uses.
    ImportError: the package or the library is missing."""
    library = os.environ.get("SPC_LIBRARY")
    places = []
    if library:
        places.append(os.path.join(os.path.dirname(library), "spctune"))
    package_beside = os.path.join(HERE, "..", "python")
    if importlib.util.find_spec("spctune") is None:
        sys.path.append(package_beside)
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        paths = [path for path in paths if path] + [package_beside]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    import spctune

    package = os.path.dirname(spctune.__file__)
    places.append(os.path.join(package, "bin", "spctune"))
    return next((p for p in places if os.path.exists(p)), None)


def run(words: List[str], limit: float, folder: Optional[str] = None) -> str:
    """Returns the standard output of a program. Failed: it ended with another
    status than 0, or ran longer than `limit` seconds."""
    try:
        ran = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=max(limit, 1),
            cwd=folder,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Failed(f"did not end in {limit:.0f} s") from late
    except OSError as error:
        raise Failed(f"{words[0]}: {error.strerror}") from error
    if ran.returncode:
        said = (ran.stderr.strip() or ran.stdout.strip()).split("\n")
        raise Failed(said[-1][:300] or f"ended with {ran.returncode}")
    return ran.stdout


def spctune(
    command: str, device: str, words: List[str], limit: float = 300
) -> Any:
    """Returns the JSON of one call of the command. Failed: it failed."""
    head = [command, "-q", "-d", device]
    return json.loads(run([*head, *words, "--json"], limit))


def program(command: str, name: str) -> str:
    """Returns the path of a test program of the build that has the command.
    Failed: the build has no such program."""
    top = os.path.dirname(os.path.dirname(os.path.abspath(command)))
    path = os.path.join(top, "tests", name)
    if not os.path.exists(path):
        raise Failed(f"{path} does not exist: build the target {name}")
    return path
