# SPDX-License-Identifier: Apache-2.0
"""Loads libspclab, and with it libspc, and checks that both have the version
that this package was written for.

`lib` releases the interpreter's lock during a call; `fast` keeps it, for calls
that only enqueue work. A failure becomes an exception with the library's
sentence (`spctune.Error` and its kinds).
"""

import ctypes
import os
from typing import Any, Dict, List, Optional, Type

from . import _abi
from ._abi import spc_error

__all__ = ["Error", "check", "fast", "lib", "library_path", "new", "text_of"]


class Error(RuntimeError):
    """A failure of libspc. `status` is the name of its code: "SPC_EINVAL"."""

    status = "SPC_EINTERNAL"


class InvalidError(Error, ValueError):
    """SPC_EINVAL, SPC_ERANGE, SPC_EDUPLICATE, SPC_EFORMAT: a bad argument."""


class NotFoundError(Error, LookupError):
    """SPC_ENOTFOUND: no such file, record or kernel."""


class OutOfMemoryError(Error, MemoryError):
    """SPC_ENOMEM: the memory of the device or of the host is used up."""


class UnsupportedError(Error, NotImplementedError):
    """SPC_EUNSUPPORTED: no kernel serves such a layer."""


_KINDS: Dict[int, Type[Error]] = {
    _abi.SPC_EINVAL: InvalidError,
    _abi.SPC_ERANGE: InvalidError,
    _abi.SPC_EDUPLICATE: InvalidError,
    _abi.SPC_EFORMAT: InvalidError,
    _abi.SPC_ENOTFOUND: NotFoundError,
    _abi.SPC_ENOMEM: OutOfMemoryError,
    _abi.SPC_EUNSUPPORTED: UnsupportedError,
}


# The soname has the major version of the interface. libspclab brings libspc
# along: symbols of both are found by its handle.
_SONAME = f"libspclab.so.{_abi.VERSION // 10000}"


def _candidates() -> List[str]:
    """Possible paths of libspclab, best first."""
    named = os.environ.get("SPC_LIBRARY")
    if named:
        return [named]
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    inside = os.path.join(folder, _SONAME)
    if not os.path.exists(inside):
        return [_SONAME]
    # libspclab uses the libspc that is loaded already. Tools that repair wheels
    # remove the folder in which libspclab would look for libspc.
    ctypes.CDLL(os.path.join(folder, _SONAME.replace("lab", "")))
    return [inside]


def _mistake(loaded: Any, path: str) -> Optional[str]:
    """Returns the reason why this library does not fit this package; None if it
    fits."""
    again = (
        "install the spctune package again, or set SPC_LIBRARY to a "
        "libspclab of version " + version_text(_abi.VERSION)
    )
    try:
        version = int(loaded.spc_version())
        loaded.spc_struct_bytes.restype = ctypes.c_size_t
    except AttributeError:
        return (
            f"{path} is not a libspclab, or an old one without spc_version(); "
            f"{again}"
        )
    if version != _abi.VERSION:
        return (
            f"{path} has version {version_text(version)}, and this package "
            f"was made for version {version_text(_abi.VERSION)}; {again}"
        )
    for struct in _abi.STRUCTS:
        name, size = struct.__name__, ctypes.sizeof(struct)
        there = int(loaded.spc_struct_bytes(name.encode()))
        if there != size:
            return (
                f"in {path} the struct {name} has {there} bytes, and this "
                f"package expects {size}; {again}"
            )
    missing = [f for f in _abi.FUNCTIONS if not hasattr(loaded, f)]
    if missing:
        return f"{path} has no function {missing[0]}(); {again}"
    return None


def version_text(number: int) -> str:
    """Formats 10203 as "1.2.3"."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _open() -> str:
    """Returns the path of a library that can be loaded."""
    failures = []
    for path in _candidates():
        try:
            ctypes.CDLL(path)
            return path
        except OSError as error:
            failures.append(str(error))
    raise ImportError(
        "cannot load libspclab: "
        + "; ".join(failures)
        + "; set SPC_LIBRARY to the path of "
        + _SONAME
    )


library_path = _open()
lib = ctypes.CDLL(library_path)
fast = ctypes.PyDLL(library_path)
_wrong = _mistake(lib, library_path)
if _wrong:
    raise ImportError(_wrong)
for _loaded in (lib, fast):
    for _name, (_result, _arguments) in _abi.FUNCTIONS.items():
        _function = getattr(_loaded, _name)
        _function.restype, _function.argtypes = _result, _arguments


def _fill(value: Any, initial: Any) -> None:
    for (name, _), item in zip(value._fields_, initial):
        if isinstance(getattr(value, name), ctypes.Structure):
            _fill(getattr(value, name), item)
        elif item is not None:
            setattr(value, name, item)


def new(struct: Any, **fields: Any) -> Any:
    """Returns a struct with the values of its SPC_..._INIT macro, then
    `fields`."""
    value = struct()
    _fill(value, _abi.INIT.get(struct, ()))
    if struct._fields_[0][0] == "bytes":
        value.bytes = ctypes.sizeof(struct)
    for name, item in fields.items():
        setattr(value, name, item)
    return value


def exception(status: int, sentence: str) -> Error:
    """Returns the exception for a status and its sentence."""
    name = (lib.spc_status_name(status) or b"").decode()
    if not sentence:
        sentence = (lib.spc_status_text(status) or b"").decode()
    error = _KINDS.get(status, Error)(sentence)
    error.status = name
    return error


def check(
    status: int, error: Optional[spc_error] = None, ctx: Any = None
) -> None:
    """Raises `spctune.Error` unless `status` is SPC_OK. The sentence comes from
    `error`, a struct that was passed to the call, otherwise from the
    context."""
    if status == 0:
        return
    sentence = lib.spc_error_text(error, ctx) or b""
    raise exception(status, sentence.decode("utf-8", "replace"))


def text_of(write: Any, *arguments: Any) -> str:
    """Returns the text that a function with snprintf's protocol writes, such as
    spc_conv_format."""
    size = write(None, 0, *arguments)
    buffer = ctypes.create_string_buffer(size + 1)
    write(buffer, size + 1, *arguments)
    return buffer.value.decode()
