# SPDX-License-Identifier: Apache-2.0
"""Contexts: one for each device of this process, made at its first use.

A child of fork() makes its own contexts. It neither uses nor frees handles of
the parent.
"""

import atexit
import collections
import ctypes
import logging
import os
import threading
from contextlib import contextmanager
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    Iterator,
    List,
    Optional,
    Set,
    Tuple,
    TypeVar,
)

from . import _abi
from ._lib import Error, OutOfMemoryError, check, exception, lib, new

__all__ = ["Context", "empty_cache", "options"]

logger = logging.getLogger("spctune")
T = TypeVar("T")
_LEVELS = {0: logging.DEBUG, 1: logging.INFO, 2: logging.WARNING}

# ---- options -----------------------------------------------------------------

_options: Dict[str, Any] = {
    "database": None,
    "layers": (),
    "shipped": None,
    "allow": None,
    "threads": 0,
    "background": True,
    "deterministic": None,
    "frozen": False,
    "reuse": True,
}


def options(**changes: Any) -> Dict[str, Any]:
    """Changes options and returns all of them.

    database       path of the database; "" for none; None: $SPC_DATABASE, else
                   ~/.cache/spctune/spctune.db
    layers         paths of read-only databases below it, best first
    shipped        folder of the databases that ship with the library; "": none
    allow          the only templates that a pass may use:
                   "forward=os_mma+os_warp,wgrad=wgrad_rows"; None: $SPC_ALLOW,
                   else all
    threads        of compilers and of the cpu device; 0: all cores
    background     True: a thread compiles better kernels while others run;
                   "tune": it also tunes them; False: the first use of a layer
                   waits for its kernel
    deterministic  True, False, or None: as
                   torch.use_deterministic_algorithms() says
    frozen         True: modules keep packed weights from call to call and pack
                   again after a write that PyTorch counts. Writes to
                   `weight.data` are not counted: leave it False in a program
                   that makes such writes
    reuse          True: the memory of voxels and kernel maps that have ended
                   is kept for the next scenes, up to four; False: it is freed.
                   spctune.empty_cache() frees it once

    The first five count for contexts that do not exist yet: set them before the
    first layer runs. ValueError: an unknown option or a bad value.
    """
    for name, value in changes.items():
        if name not in _options:
            raise ValueError(
                f"unknown option '{name}'; the options are "
                + ", ".join(_options)
            )
        if name == "background" and value not in (True, False, "tune"):
            raise ValueError(
                f"background={value!r}: it is True, False or 'tune'"
            )
        if name == "reuse" and value not in (True, False):
            raise ValueError(f"reuse={value!r}: it is True or False")
        if name == "deterministic" and value not in (True, False, None):
            raise ValueError(
                f"deterministic={value!r}: it is True, False or None"
            )
    _options.update(changes)
    return dict(_options)


def deterministic(default: bool) -> bool:
    """True if atomics are not allowed. `default` applies if the option is not
    set."""
    chosen = _options["deterministic"]
    return default if chosen is None else bool(chosen)


def frozen() -> bool:
    """True if packed weights may be kept."""
    return bool(_options["frozen"])


def reuses() -> bool:
    """True if the memory of scenes that have ended is kept for other scenes."""
    return bool(_options["reuse"])


def empty_cache() -> None:
    """Frees the memory of voxels and kernel maps that have ended, which is kept
    for the next scenes (option `reuse`). With torch it returns to torch's own
    cache: call torch.cuda.empty_cache() afterwards."""
    for context in list(_contexts.values()):
        context.spares.clear()


# ---- contexts ----------------------------------------------------------------

# Allocators of device memory by the kind of device. "cuda" uses torch's
# allocator once spctune's torch modules are imported. Each makes a
# spc_memory_hook.
memory_hooks: Dict[str, Callable[[str], Any]] = {}

_contexts: Dict[str, "Context"] = {}
_lock = threading.Lock()


def _write_log(level: int, text: bytes, payload: Any) -> None:
    logger.log(
        _LEVELS.get(level, logging.INFO), "%s", text.decode("utf-8", "replace")
    )


_log = type(_abi.spc_ctx_options().log)(_write_log)


class Context:
    """A device, its database, and the plans that were made for it.

    The library allows one thread at a time to make maps and plans, so
    `calling()` is held during such calls. Objects that end during a call,
    perhaps on another thread or within a callback of the library, are freed
    after the call.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.kind = device.partition(":")[0]
        self.pid = os.getpid()
        self.plans: Dict[Any, List[Any]] = {}
        self.ptr: Optional[int] = None
        self.has_told = False  # has reported a compilation
        # Sets and maps (sets.py) of scenes in use, and of scenes that have
        # ended (the latest is last); and extents by stream.
        self.trees: Set[Any] = set()
        self.spares: Deque[Any] = collections.deque(maxlen=4)
        self.extents: Dict[Optional[int], Any] = {}
        # The spatial shape of a layer by its other words; "": the shape differs
        # between scenes.
        self.shapes: Dict[str, str] = {}
        self._busy = threading.Lock()
        self._ended: Deque[Tuple[Any, int]] = collections.deque()
        self._keep = self._words()
        pointer, error = ctypes.c_void_p(), _abi.spc_error()
        check(lib.spc_ctx_create(pointer, self._keep, error), error)
        self.ptr = pointer.value
        self.flags = self._start_background()

    def _words(self) -> Any:
        """Returns the spc_ctx_options of this device."""

        def text(name: str) -> Optional[bytes]:
            value = _options[name]
            return None if value is None else os.fsencode(value)

        layers = [os.fsencode(path) for path in _options["layers"]]
        words = new(
            _abi.spc_ctx_options,
            device=self.device.encode(),
            database=text("database"),
            shipped=text("shipped"),
            allow=text("allow"),
            threads=int(_options["threads"]),
            log=_log,
            layer_count=len(layers),
        )
        if layers:
            self._layers = (ctypes.c_char_p * len(layers))(*layers)
            words.layers = self._layers
        if self.kind in memory_hooks:
            words.memory = memory_hooks[self.kind](self.device)
        return words

    def _start_background(self) -> int:
        """Returns the flags of plans. Background mode needs a writable
        database; without one the first use of a layer waits for its kernel."""
        if not _options["background"]:
            return _abi.SPC_PLAN_JIT
        how = new(_abi.spc_background_options, effort=_abi.SPC_EFFORT_NORMAL)
        if _options["background"] == "tune":
            how.tune = ctypes.cast(lib.spc_tune, type(how.tune))
        status = lib.spc_background_start(self.ptr, how)
        if status == _abi.SPC_EDB:
            logger.info(
                "%s: no database to write to, so layers wait for their "
                "kernels: %s",
                self.device,
                self.sentence(),
            )
            return _abi.SPC_PLAN_JIT
        self.check(status)
        return _abi.SPC_PLAN_BACKGROUND

    @staticmethod
    def get(device: str) -> "Context":
        """Returns the context of "cpu", "cuda:0" or "sim" in this process."""
        found = _contexts.get(device)
        if found is None:
            with _lock:
                found = _contexts.get(device)
                if found is None:
                    found = _contexts[device] = Context(device)
        return found

    def sentence(self) -> str:
        """Returns the calling thread's last failure with this context."""
        return (lib.spc_ctx_error(self.ptr) or b"").decode("utf-8", "replace")

    def check(self, status: int) -> None:
        """Raises the exception of a failure."""
        if status:
            raise exception(status, self.sentence())

    def copy(self, to: int, data: int, size: int) -> None:
        """Copies bytes on the device, or on the host."""
        if self.kind == "cuda":
            import cupy  # type: ignore[import-not-found, unused-ignore]

            cupy.cuda.runtime.memcpy(to, data, size, 3)
        else:
            ctypes.memmove(to, data, size)

    def need_own(self) -> None:
        """Raises an error if a parent process made the object."""
        if self.pid != own_pid:
            raise Error(
                "a kernel map of the parent process cannot be used in "
                "a child of fork(); make the sparse tensor in the child"
            )

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Held during calls that make maps or plans; must not be nested."""
        self.need_own()
        with self._busy:
            yield
        self._sweep()

    def release(self, free: Any, pointer: Optional[int]) -> None:
        """Frees an object: at once, or after the running call."""
        if pointer is not None and self.pid == own_pid:
            self._ended.append((free, pointer))
            self._sweep()

    def keep(self, tree: Any) -> None:
        """Keeps the sets and maps of a scene that has ended."""
        self.trees.discard(tree)
        if self.pid == own_pid and reuses() and self.ptr is not None:
            self.spares.append(tree)

    def retry(self, make: Callable[[], T]) -> T:
        """Returns the result of make(). If memory is short, frees the spare
        scenes and tries once more."""
        try:
            return make()
        except OutOfMemoryError:
            if not self.spares:
                raise
            self.spares.clear()
            return make()

    def _sweep(self) -> None:
        while self._ended and self._busy.acquire(blocking=False):
            try:
                while self._ended:
                    free, pointer = self._ended.popleft()
                    free(pointer)
            except IndexError:  # another thread took the last spare scene
                pass
            finally:
                self._busy.release()

    def close(self) -> None:
        """Ends the background thread. Plans and maps stay usable."""
        pointer, self.ptr = self.ptr, None
        self.spares.clear()
        if self.pid == own_pid:
            lib.spc_ctx_free(pointer)

    def __repr__(self) -> str:
        return f"<spctune.Context {self.device}>"


def existing() -> List[Context]:
    """The contexts of this process."""
    return list(_contexts.values())


own_pid = os.getpid()


def _after_fork() -> None:
    """Runs in the child: drops the parent's contexts, and the locks that the
    parent may hold."""
    global _contexts, _lock, own_pid
    _contexts, _lock, own_pid = {}, threading.Lock(), os.getpid()


@atexit.register
def _at_exit() -> None:
    """The library must not call into an interpreter that is shutting down."""
    for context in list(_contexts.values()):
        context.close()
    _contexts.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
