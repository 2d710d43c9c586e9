# SPDX-License-Identifier: Apache-2.0
"""Records the layers and scenes that a program runs, to be tuned later.

A folder has a file `layers.txt` with lines "LAYER<tab>SCENE", and the scenes as
int32 [rows, 4] in files .npy, which `spctune tune --scene` reads, too.
"""

import hashlib
import os
import threading
from typing import Dict, List, Optional, Set, Tuple

from ._lib import InvalidError

__all__ = ["capture", "captured"]

_LAYERS = "layers.txt"
_MOST_SCENES = 4  # scenes of one layer


class _Folder:
    """A folder of recorded layers."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        os.makedirs(path, exist_ok=True)
        self.known: Set[Tuple[str, int]] = set()
        self.counts: Dict[str, int] = {}
        for layer, scene in _read(path):
            rows = os.path.getsize(os.path.join(path, scene)) // 16
            self._count(layer, rows)

    def _count(self, layer: str, rows: int) -> bool:
        """True if this layer, with about this many rows, is new."""
        key = (layer, rows.bit_length())
        count = self.counts.get(layer, 0)
        if key in self.known or count >= _MOST_SCENES:
            return False
        self.known.add(key)
        self.counts[layer] = count + 1
        return True

    def add(self, layer: str, rows: bytes) -> None:
        """Writes a layer and its scene, int32 [rows, 4]."""
        with self.lock:
            if not self._count(layer, len(rows) // 16):
                return
            name = hashlib.sha256(rows).hexdigest()[:16] + ".npy"
            path = os.path.join(self.path, name)
            if not os.path.exists(path):
                with open(path + ".part", "wb") as file:
                    file.write(_npy_head(len(rows) // 16) + rows)
                os.replace(path + ".part", path)
            with open(
                os.path.join(self.path, _LAYERS), "a", encoding="utf-8"
            ) as file:
                file.write(f"{layer}\t{name}\n")


def _npy_head(rows: int) -> bytes:
    """Returns the header of a .npy file of int32 [rows, 4]."""
    words = (
        f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({rows}, 4), }}"
    )
    words = words.ljust(117) + "\n"  # 128 with the 10 bytes before it
    return b"\x93NUMPY\x01\x00\x76\x00" + words.encode()


def _read(path: str) -> List[Tuple[str, str]]:
    """Returns the layers of a folder with the names of their scenes."""
    try:
        with open(os.path.join(path, _LAYERS), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for number, line in enumerate(lines, 1):
        layer, _, scene = line.partition("\t")
        if not scene or not os.path.exists(os.path.join(path, scene)):
            raise InvalidError(
                f"{os.path.join(path, _LAYERS)}:{number}: '{line}' is no layer "
                "with a scene of this folder"
            )
        found.append((layer, scene))
    return found


def captured(path: str) -> Dict[str, List[str]]:
    """Returns the layers of a folder that capture() filled, with the paths of
    their scenes. NotFoundError: the folder does not exist or has no layers."""
    from ._lib import NotFoundError

    layers: Dict[str, List[str]] = {}
    for layer, scene in _read(path):
        layers.setdefault(layer, []).append(os.path.join(path, scene))
    if not layers:
        raise NotFoundError(
            f"'{path}' has no layers: it is a folder that spctune.capture() "
            "filled"
        )
    return layers


folder: Optional[_Folder] = None


def capture(path: Optional[str]) -> None:
    """Records the PyTorch layers that run from now on: each layer and pass with
    its voxels, in a folder, for spctune.tune(path).

    path  a folder, which is created; layers are added to earlier ones. None:
          ends the recording

    At most four scenes of a layer are recorded; their numbers of rows differ by
    a factor of two. Layers of points, and layers between two given sets of
    voxels, are left out. Costs a copy of the voxels of each scene. OSError: the
    folder cannot be written.
    """
    global folder
    folder = None if path is None else _Folder(os.fspath(path))
