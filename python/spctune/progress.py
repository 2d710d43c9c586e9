# SPDX-License-Identifier: Apache-2.0
"""Progress of long work: a bar if tqdm is installed, otherwise lines."""

import sys
import time
from typing import Any, Optional

__all__ = ["Bar"]


class Bar:
    """Shows how much of `total` is done. update() takes the finished part, and
    a text about the current work or its result."""

    def __init__(self, what: str, total: float = 1.0) -> None:
        self._what, self._total = what, total
        self._start, self._last = time.monotonic(), 0.0
        self._text, self._is_done = "", False
        self._bar: Optional[Any] = None
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            return
        self._bar = tqdm(
            total=total,
            desc=what,
            bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed} {postfix}",
        )

    def update(self, done: float, text: str = "") -> None:
        """Shows `done` of `total`, with the last text. Prints at most one line
        a second, and the last line once."""
        is_done = done >= self._total
        if is_done and self._is_done:
            return
        self._text, self._is_done = text or self._text, is_done
        if self._bar is not None:
            self._bar.n = min(done, self._total)
            self._bar.set_postfix_str(self._text, refresh=True)
            return
        now = time.monotonic()
        if now - self._last >= 1 or is_done:
            self._last = now
            behind = f", {self._text}" if self._text else ""
            print(
                f"{self._what}: {100 * done / self._total:.0f} %, "
                f"{now - self._start:.0f} s{behind}",
                file=sys.stderr,
                flush=True,
            )

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
