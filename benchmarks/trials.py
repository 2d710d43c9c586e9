# SPDX-License-Identifier: Apache-2.0
"""Our dataflows as one search measures them: each candidate was verified
against the oracle before it was timed."""

from typing import Any, Dict, List

import command


def config(text: str) -> Dict[str, str]:
    """The parameters of a candidate."""
    return dict(w.split("=", 1) for w in text.split(",") if "=" in w)


def of(
    bench: Any,
    layer: Any,
    scene: Any,
    only: str = "",
    pass_: str = "forward",
) -> List[Dict[str, Any]]:
    """Returns the verified candidates of a layer with their times, of all
    templates or of one; none, with a note, if the search failed."""
    effort = "quick" if bench.args.quick else "normal"
    words = ["--only", only] if only else []
    more = (
        []
        if bench.args.quick
        else ["--budget", f"{max(bench.left(), 10):.0f}s"]
    )
    try:
        found = bench.spctune(
            "tune",
            layer.words(),
            "--scene",
            scene.spec,
            "--effort",
            effort,
            "--all",
            "--pass",
            pass_,
            *more,
            *words,
        )
    except command.Failed as error:
        bench.notes.append(f"{layer.text()}, {scene.name}: {error}")
        return []
    return [
        dict(t, values=config(t["config"]))
        for t in found[0]["trials"]
        if t["status"] == "ok" and t.get("verified") and t.get("median_us")
    ]


def best(trials: List[Dict[str, Any]]) -> Any:
    return min((t["median_us"] for t in trials), default=None)
