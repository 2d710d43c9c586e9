# SPDX-License-Identifier: Apache-2.0
"""compile() turns a model into a network, with torch functions before and after
it.

    net = spctune.compile(model.eval(), samples=[batch1, batch2], dtype="f16",
                          capacity=160_000)
    out = net(batch)           # the structure that model(batch) returns

A call runs three parts: torch functions before the first layer, the network
(one CUDA graph on a GPU), and the torch functions for which the network has no
operator.
"""

import copy
import ctypes
import math
import os
from typing import (
    Any,
    Callable,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import torch
from torch import Tensor, nn

from . import context, ops, pooling, show
from ._lib import InvalidError, lib
from .context import Context
from .lower import Lowered, lower
from .maps import Map
from .network import (
    Extent,
    Graph,
    Network,
    Output,
    Step,
    Verdict,
    extent_around,
)
from .sparse import to_dense
from .trace import (
    Entry,
    Given,
    Ref,
    Size,
    Sparse,
    Tape,
    TraceError,
    change,
    fill,
    is_sparse,
    leaves,
    places,
    record,
    same_path,
    unify_all,
    writes,
)
from .tuning import Reports, layer_progress, tune_scenes

__all__ = ["CompiledModel", "LoadedNetwork", "Profile", "compile", "load"]

# Half of the spacing of numbers near 1, which is the error of one rounding.
_ROUNDING = {
    "f16": 2.0**-11,
    "bf16": 2.0**-8,
    "tf32": 2.0**-11,
    "f32": 2.0**-24,
}


class Profile(List[Step]):
    """The steps of a run. str() is a table; notebooks show bars."""

    def total(self) -> float:
        """The sum of the steps' times in microseconds."""
        return sum(step.us for step in self)

    def __str__(self) -> str:
        lines = [f"{'us':>9} {'floor':>8} {'rows':>9}  step"]
        for s in self:
            lines.append(
                f"{s.us:9.1f} {s.floor_us:8.1f} {s.rows_out:9d}  "
                f"{s.name}: {s.text}"
                + (f"  [{s.kernel}, {s.match}]" if s.kernel else "")
            )
        lines.append(f"{self.total():9.1f}  in all, one step after the other")
        return "\n".join(lines)

    def svg(self) -> str:
        """Returns a picture with a bar for each step: its length is the time,
        its colour the dataflow, and a mark shows the floor."""
        return show.picture(self)

    def _repr_html_(self) -> str:
        heads = ("step", "layer", "rows", "us", "floor", "kernel", "choice")
        return self.svg() + show.table(
            heads,
            [
                (
                    s.name,
                    s.text,
                    s.rows_out,
                    s.us,
                    s.floor_us,
                    s.kernel,
                    s.match,
                )
                for s in self
            ],
        )


class _Step(NamedTuple):
    """A torch function that a run calls."""

    func: Any
    args: Any
    kwargs: Any
    out: Any


def _wanted(value: Any) -> List[int]:
    """Returns the tape's tensor numbers in a structure."""
    found: List[int] = []
    for leaf in leaves(value):
        if isinstance(leaf, Sparse):
            found += _wanted((leaf.features, leaf.coords))
        elif isinstance(leaf, (Ref, Size)):
            found.append(leaf.number)
    return found


def _paths(value: Any) -> Dict[int, str]:
    """Returns the tape's tensor numbers in a structure, each with a name from
    its position."""
    found: Dict[int, str] = {}
    for path, leaf in places(value):
        name = ".".join(map(str, path))
        parts = [(leaf, name)]
        if isinstance(leaf, Sparse):
            parts = [(leaf.features, name), (leaf.coords, name + ".voxels")]
        for part, word in parts:
            if isinstance(part, Ref):
                found.setdefault(part.number, word)
    return found


def _free_arguments(tapes: List[Tape]) -> Dict[Tuple[Any, ...], Any]:
    """Returns arguments that are not tensors and differ between samples, by
    their keys. The model's path does not depend on them."""
    found: Dict[Tuple[Any, ...], Any] = {}
    first = dict(places(tapes[0].inputs))
    for other in tapes[1:]:
        for path, leaf in places(other.inputs):
            mine = first.get(path)
            if isinstance(leaf, (Ref, Sparse)) or path not in first:
                continue
            if (
                type(leaf) is not type(mine)
                or not isinstance(leaf, (int, float, str, bool))
                or leaf != mine
            ):
                found[path] = mine
    return found


def _give(result: Any, free: Dict[Tuple[Any, ...], Any]) -> Any:
    """Returns the result with Given in place of each such argument."""
    by_id = {id(leaf): path for path, leaf in free.items()}

    def walk(value: Any, key: Any) -> Any:
        if isinstance(value, dict):
            made = copy.copy(value)
            for k, item in value.items():
                made[k] = walk(item, k)
            return made
        if isinstance(value, (list, tuple)) and not isinstance(
            value, (Ref, Size, Sparse)
        ):
            names = getattr(value, "_fields", range(len(value)))
            items = [walk(v, k) for k, v in zip(names, value)]
            return (
                type(value)(*items)
                if hasattr(value, "_fields")
                else type(value)(items)
            )
        path = by_id.get(id(value))
        return Given(path) if path is not None and path[-1] == key else value

    return walk(result, None)


def _at(path: Tuple[Any, ...], value: Any) -> Any:
    """Returns the part of a structure to which the keys lead."""
    for key in path:
        value = (
            getattr(value, key)
            if isinstance(value, tuple) and isinstance(key, str)
            else value[key]
        )
    return value


class CompiledModel:
    """A model whose sparse layers are one network. See compile()."""

    def __init__(
        self,
        model: nn.Module,
        samples: Sequence[Any],
        dtype: str,
        capacity: int,
        name: str,
        growth: float,
    ) -> None:
        self.name, self.dtype, self.capacity = name, dtype, capacity
        self._growth = growth
        tapes = [record(model, *_call_of(s)) for s in samples]
        first = tapes[0]
        for other in tapes[1:]:
            same_path(first, other)
        names = {
            p.data_ptr(): n.rpartition(".")[0] or n
            for n, p in model.named_parameters(remove_duplicate=False)
        }
        lowered = lower(first, _paths(first.result), name, dtype, names)
        if lowered is None:
            raise TraceError(
                "the model runs no layer of spctune; is it made of "
                "spctune.nn or one of the drop-in modules?"
            )
        self._lowered: Lowered = lowered
        free = _free_arguments(tapes)
        self._free, self._inputs = set(free), first.inputs
        self._result = _give(first.result, free)
        self._dtypes = {n: first.tensors[n].dtype for n in lowered.outputs}
        self._shapes = {n: first.shapes[n] for n in lowered.outputs}
        self._batches = _batches_of(tapes, lowered)
        self._sample = _sample_of(first, lowered)
        self.extent = _extent_of(tapes, lowered)
        self.device = first.tensors[lowered.features].device
        self._before, self._after = self._split(tapes)
        self._profile: Optional[Profile] = None  # the last profile
        self.network = self._network(False)

    # ---- making it -----------------------------------------------------------

    def _network(self, keep: bool, ctx: Optional[Context] = None) -> Network:
        where = (
            "cpu"
            if self.device.type == "cpu"
            else f"cuda:{self.device.index or 0}"
        )
        return Network(
            self._lowered.graph,
            ctx or Context.get(where),
            self.capacity,
            self._batches,
            self._sample,
            self._growth,
            keep,
            self.extent,
        )

    def _split(self, tapes: List[Tape]) -> Tuple[List[_Step], List[_Step]]:
        """Splits the torch functions into those that make the network's inputs,
        and those that follow the network."""
        tape, low = tapes[0], self._lowered
        from_network = set(low.outputs) | set(low.voxels)
        known = {n for n in range(len(tape.tensors))}
        absorbed = {
            v.number
            for i in low.absorbed
            for v in leaves(tape.entries[i].out)
            if isinstance(v, Ref)
        }
        known -= absorbed - from_network
        needed = set(_wanted(self._result)) | {low.features, low.indices}
        keep: List[int] = []
        for i in reversed(range(len(tape.entries))):
            entry = tape.entries[i]
            outs = {v.number for v in leaves(entry.out) if isinstance(v, Ref)}
            if i in low.absorbed or outs & set(low.voxels):
                continue
            if outs & needed or writes(entry):
                keep.append(i)
                needed |= set(_wanted((entry.args, entry.kwargs)))
        before: List[_Step] = []
        after: List[_Step] = []
        late = set(from_network)
        for i in reversed(keep):
            entry = tape.entries[i]
            if entry.kind in ("conv", "pool") and entry.args[-1] is None:
                raise TraceError(
                    f"{entry.where}: a layer onto voxels that are given reads "
                    "features that a torch function made; that cannot be part "
                    "of a compiled model yet"
                )
            args, kwargs = entry.args, entry.kwargs
            for other in tapes[1:]:
                twin = other.entries[i]
                args = unify_all(
                    tape, other, args, twin.args, entry, known.__contains__
                )
                kwargs = unify_all(
                    tape, other, kwargs, twin.kwargs, entry, known.__contains__
                )
            outs = {v.number for v in leaves(entry.out) if isinstance(v, Ref)}
            reads = set(_wanted((args, kwargs)))
            if reads & late:
                late |= outs
                after.append(_Step(_runner(entry), args, kwargs, entry.out))
            else:
                before.append(_Step(_runner(entry), args, kwargs, entry.out))
        if low.features in late or low.indices in late:
            raise TraceError(
                "what goes into the network depends on what comes out of it"
            )
        return before, after

    # ---- running -------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model on inputs of the samples' structure. InvalidError:
        another structure, more voxels than the capacity, or a level that
        exceeds its capacity; the sentence states the capacity that would
        fit."""
        tensors: Dict[int, Tensor] = {}
        self._match(args, kwargs, tensors)
        with torch.no_grad():
            for step in self._before:
                _run(step, tensors)
            self._run_network(tensors)
            for step in self._after:
                _run(step, tensors)

        def of(value: Any) -> Any:
            return (
                _at(value.path, (args, kwargs))
                if isinstance(value, Given)
                else _value(value, tensors)
            )

        return fill(self._result, of)

    def _match(
        self, args: Any, kwargs: Any, tensors: Dict[int, Tensor]
    ) -> None:
        _match(self._inputs, (args, kwargs), tensors, (), self._free)

    def _run_network(
        self, tensors: Dict[int, Tensor], network: Optional[Network] = None
    ) -> None:
        """Copies the outputs of the network to the tensors."""
        network, low = network or self.network, self._lowered
        features, indices = tensors[low.features], tensors[low.indices]
        network.run(features, indices)
        # Dense outputs are copied behind the network. The others wait for the
        # number of their rows.
        copies: Dict[int, Tensor] = {
            i: self._copied(network, i, number)
            for i, number in enumerate(low.outputs)
            if network.is_dense(i)
        }
        network.finish()
        for i, number in enumerate(low.outputs):
            made = copies.get(i)
            if made is None:
                made = self._copied(network, i, number)
            shape = self._shapes[number]
            tensors[number] = made.view(made.shape[0], *shape[1:])
        for number, i in low.voxels.items():
            coords = network.voxels(i)
            tensors[number] = indices if coords is None else coords

    def _copied(self, network: Network, i: int, number: int) -> Tensor:
        return network.features(i).to(self._dtypes[number], copy=True)

    # ---- inspection ----------------------------------------------------------

    def notes(self) -> List[str]:
        """Notes about the network, as sentences."""
        return self._lowered.graph.notes()

    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """Runs the model and measures every step of the network: time, floor,
        kernel."""
        self(*args, **kwargs)
        self._profile = Profile(self.network.profile())
        return self._profile

    def verify(self, *args: Any, **kwargs: Any) -> Verdict:
        """Runs the model and compares each set and layer of the network with
        the oracle, on the host. Error: a result is wrong; the sentence names
        it. Takes seconds."""
        tensors: Dict[int, Tensor] = {}
        self._match(args, kwargs, tensors)
        network = self._network(True)
        with torch.no_grad():
            for step in self._before:
                _run(step, tensors)
            self._run_network(tensors, network)
        return network.verify()

    def tune(
        self,
        *batches: Any,
        effort: str = "quick",
        budget_s: float = 0,
        progress: Union[bool, None, Callable[[int, int, str], None]] = None,
    ) -> Reports:
        """Measures kernels for every layer on the voxels of these batches,
        stores the best in the database, and uses them from then on.

        batches   each is an argument of the model; none: the last batch that it
                  ran
        effort    "quick", "normal", "exhaustive"
        budget_s  seconds for each layer; 0: no limit
        progress  True: a bar; or a function that gets the layer's number, the
                  number of layers, and the layer
        """
        scenes: Dict[str, List[ctypes.c_void_p]] = {}
        reports = Reports()
        try:
            for batch in batches or (None,):
                if batch is not None:
                    args, kwargs = _call_of(batch)
                    self(*args, **kwargs)
                for words, scene in self.network.layer_scenes().items():
                    scenes.setdefault(words, []).append(scene)
            with layer_progress(progress, len(scenes)) as tell:
                for i, (words, of) in enumerate(scenes.items()):
                    tell(i, words)
                    reports.append(
                        tune_scenes(
                            self.network.ctx, words, of, effort, budget_s
                        )
                    )
        finally:
            for scene in (s for of in scenes.values() for s in of):
                lib.spc_scene_free(scene)
        self.network, self._profile = self._network(False), None
        return reports

    def tolerance(self) -> float:
        """The largest error of a result relative to the eager model's, as a
        fraction of its root mean square. A layer rounds its inputs, weights and
        outputs; these errors add up like a random walk. The largest of 1e7
        normal errors is 5.5 times their root mean square, and features are up
        to three times theirs: 16 in all."""
        roundings = 3 * (self._lowered.layers + 1)
        return 16 * _ROUNDING[self.dtype] * math.sqrt(roundings)

    def save(
        self, path: str, name: Optional[str] = None, replace: bool = True
    ) -> None:
        """Stores the network in a database: graph, weights, and the code of its
        kernels for this device. C opens it by spc_net_open(), Python by load().
        Torch functions around the network are not stored."""
        with _database(path, self.network.ctx.device) as ctx:
            self._lowered.graph.store(ctx, name or self.name, replace=replace)
            self._network(False, ctx)  # compiles missing kernels

    def __repr__(self) -> str:
        low = self._lowered
        around = len(self._before) + len(self._after)
        return (
            f"<spctune.CompiledModel '{self.name}': {low.layers} layers, "
            f"{len(low.outputs)} outputs, {self.dtype}, up to "
            f"{self.capacity} voxels on {self.network.ctx.device}; "
            f"{around} torch functions around it>"
        )

    def _repr_html_(self) -> str:
        low = self._lowered
        names = self.network.output_names
        return show.facts(
            f"spctune.CompiledModel '{self.name}'",
            [
                ("layers", low.layers),
                ("outputs", ", ".join(names)),
                ("type", self.dtype),
                ("voxels", f"up to {self.capacity}"),
                ("batch elements", f"up to {self._batches}"),
                ("device", self.network.ctx.device),
                ("torch functions before", len(self._before)),
                ("torch functions behind", len(self._after)),
                *(("note", words) for words in self.notes()),
            ],
        ) + ("" if self._profile is None else self._profile._repr_html_())


# ---- tapes -------------------------------------------------------------------


def _call_of(sample: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """Returns the arguments of a sample: a tuple has all of them."""
    return (
        sample
        if isinstance(sample, tuple) and not hasattr(sample, "_fields")
        else (sample,)
    ), {}


def _map_again(source: Tuple[Tensor, str], inverse: bool, words: str) -> Map:
    """The map of a layer over other voxels."""
    made, _ = ops.kernel_map(*source)
    assert isinstance(made, Map)
    return Map(made.relation, inverse, words)


def _runner(entry: Entry) -> Any:
    """Returns the function that replays an entry."""
    func = entry.func
    # Keeps no reference to the map, which would stay on the device.
    inverse, words = (
        (False, "")
        if entry.map is None
        else (entry.map.inverse, entry.map.words)
    )

    def conv(x: Tensor, weight: Tensor, bias: Any, source: Any) -> Tensor:
        found = _map_again(source, inverse, words)
        return ops.conv(x, weight, found, words, found.rows_out, bias)

    def pool(x: Tensor, kind: str, source: Any) -> Tensor:
        found = _map_again(source, inverse, words)
        return pooling.pool(x, found, words, found.rows_out, kind)

    def voxels(indices: Tensor, words: str) -> Tensor:
        return ops.kernel_map(indices, words)[1]

    if entry.kind != "torch":
        return {
            "conv": conv,
            "pool": pool,
            "map": voxels,
            "dense": to_dense,
        }[entry.kind]
    if getattr(func, "__name__", "") == "__setitem__":

        def set_item(target: Tensor, *rest: Any) -> Tensor:
            func(target, *rest)
            return target

        return set_item
    return func


def _value(value: Any, tensors: Dict[int, Tensor]) -> Any:
    """Returns the value of a Ref, Size or Sparse in a run."""
    if isinstance(value, Ref):
        return tensors[value.number]
    if isinstance(value, Size):
        size = tensors[value.number].shape[value.axis]
        return size * value.times // value.over
    parts = [
        v if isinstance(v, Tensor) else tensors[v.number]
        for v in (value.features, value.coords)
    ]
    return value.like.remade(*parts)


def _run(step: _Step, tensors: Dict[int, Tensor]) -> None:
    args, kwargs = fill((step.args, step.kwargs), lambda v: _value(v, tensors))
    result = step.func(*args, **kwargs)
    for ref, value in zip(leaves(step.out), leaves(result)):
        if isinstance(ref, Ref):
            tensors[ref.number] = value


def _words(path: Tuple[Any, ...]) -> str:
    """Returns keys as the caller writes them, without the keys of (args,
    kwargs)."""
    head = f"argument {path[1]}" if len(path) > 1 else "the arguments"
    return head + "".join(f"[{key!r}]" for key in path[2:])


def _match(
    expected: Any,
    given: Any,
    tensors: Dict[int, Tensor],
    path: Tuple[Any, ...],
    free: Set[Tuple[Any, ...]],
) -> None:
    """Finds the tensors of the arguments. InvalidError: the structure differs
    from that of the samples."""

    def fail(words: str) -> None:
        raise InvalidError(f"{_words(path)}: {words}")

    if isinstance(expected, Ref):
        if not isinstance(given, Tensor):
            fail(f"a tensor in the samples, {type(given).__name__} here")
        tensors[expected.number] = given
    elif isinstance(expected, Sparse):
        if not is_sparse(given):
            fail(f"a sparse tensor in the samples, {type(given).__name__} here")
        features, coords = given.parts()
        _match(expected.features, features, tensors, path, free)
        _match(expected.coords, coords, tensors, path, free)
    elif isinstance(expected, dict):
        if not isinstance(given, dict) or not expected.keys() <= given.keys():
            fail(f"the samples have the keys {', '.join(map(str, expected))}")
        for key, item in expected.items():
            _match(item, given[key], tensors, path + (key,), free)
    elif isinstance(expected, (list, tuple)):
        if not isinstance(given, (list, tuple)) or len(given) != len(expected):
            fail(f"the samples have {len(expected)} parts")
        names = getattr(expected, "_fields", range(len(expected)))
        for key, a, b in zip(names, expected, given):
            _match(a, b, tensors, path + (key,), free)
    elif (
        isinstance(expected, (int, float, str, bool))
        and path not in free
        and expected != given
    ):
        fail(
            f"{expected!r} in all samples, {given!r} here; the network is "
            "compiled for one value"
        )


def _rows_of(tape: Tape, number: int) -> Tensor:
    rows: Tensor = tape.tensors[number].detach().to("cpu", torch.int32)
    return rows


def _batches_of(tapes: List[Tape], low: Lowered) -> int:
    """Returns the number of batch elements: of a dense output, else of the
    samples."""
    found = [1]
    for i in low.absorbed:
        if tapes[0].entries[i].kind == "dense":
            found.append(int(tapes[0].entries[i].args[3]))
    for tape in tapes:
        batch = _rows_of(tape, low.indices)[:, 0]
        if len(batch):
            found.append(int(batch.max()) + 1)
    return max(found)


def _sample_of(tape: Tape, low: Lowered) -> Optional[Tensor]:
    rows = _rows_of(tape, low.indices)
    return rows if len(rows) else None


def _extent_of(tapes: List[Tape], low: Lowered) -> Optional[Extent]:
    """Returns the extent of all samples, for networks without a shape."""
    if any(low.graph.describe().input.contents.shape):
        return None
    return extent_around(torch.cat([_rows_of(t, low.indices) for t in tapes]))


# ---- databases ---------------------------------------------------------------


class _database:
    """Makes a separate context with another database."""

    def __init__(self, path: str, device: str) -> None:
        self.path, self.device = path, device

    def __enter__(self) -> Context:
        before = context.options()
        context.options(database=os.fspath(self.path), background=False)
        try:
            self.ctx = Context(self.device)
        finally:
            context.options(
                database=before["database"], background=before["background"]
            )
        return self.ctx

    def __exit__(self, *_: Any) -> None:
        self.ctx.close()


class LoadedNetwork:
    """A network from a database. net(features, coords) returns its outputs by
    name (network.Output), which are its memory until the next call."""

    def __init__(self, graph: Graph, network: Network) -> None:
        self.graph, self.network = graph, network

    def __call__(self, features: Tensor, coords: Tensor) -> Dict[str, Output]:
        return self.network(features, coords)

    def __repr__(self) -> str:
        return (
            f"<spctune network '{self.graph.name}' on "
            f"{self.network.ctx.device}: "
            f"{', '.join(self.network.output_names)}>"
        )

    def _repr_html_(self) -> str:
        return show.facts(
            f"spctune network '{self.graph.name}'",
            [
                ("outputs", ", ".join(self.network.output_names)),
                ("device", self.network.ctx.device),
                *(("note", words) for words in self.graph.notes()),
            ],
        )


def load(
    path: str,
    name: str,
    device: str = "cpu",
    capacity: int = 200_000,
    batches: int = 1,
    sample: Optional[Tensor] = None,
    growth: float = 2.0,
    extent: Optional[Extent] = None,
) -> LoadedNetwork:
    """Opens a network that save(), `spctune net add` or a C program stored in a
    database.

    device    "cpu", "cuda:0"
    capacity  the most voxels of a scene
    batches   the most batch elements
    sample    int32 [rows, 4]: a scene whose sizes choose the kernels
    extent    (low, high): the voxels of scenes, both ends included; only for
              networks whose input has no shape; None: around the sample

    NotFoundError: the database has no such network.
    """
    if not os.path.exists(path):
        raise InvalidError(f"there is no database '{path}'")
    before = context.options()
    context.options(database=os.fspath(path))
    try:
        ctx = Context("cuda:0" if device == "cuda" else device)
    finally:
        context.options(database=before["database"])
    graph = Graph.opened(ctx, name)
    return LoadedNetwork(
        graph,
        Network(graph, ctx, capacity, batches, sample, growth, False, extent),
    )


# ---- the function ------------------------------------------------------------


def compile(
    model: nn.Module,
    samples: Sequence[Any],
    dtype: str = "f16",
    capacity: Optional[int] = None,
    name: str = "model",
    growth: float = 2.0,
) -> CompiledModel:
    """Makes one network of a model's sparse layers.

    model     in eval mode, made of spctune.nn or a drop-in's modules, with any
              torch functions between them
    samples   two or more batches of different size: each is the model's
              argument, or a tuple of several
    dtype     "f16", "bf16", "f32" or "tf32": of features and weights
    capacity  the most voxels of a batch; None: twice that of the samples
    name      of the network, where it is stored
    growth    room of strided sets, as a multiple of the capacity

    The model runs once on each sample. Its operators become a network, up to
    the first operator that libspc does not have. Torch runs the rest, and
    layers after that operator run one by one.

    InvalidError (TraceError): a branch on data, with its line in the model; a
    layer that cannot be part of the network; a model in training mode.
    """
    if dtype not in _ROUNDING:
        raise InvalidError(
            f"dtype='{dtype}': it is one of " + ", ".join(_ROUNDING)
        )
    if len(samples) < 2:
        raise InvalidError(
            "compile() needs two samples of different size: "
            "with one, a size cannot be told from a constant"
        )
    if isinstance(model, nn.Module) and model.training:
        raise InvalidError(
            "the model is in training mode; call model.eval() first"
        )
    if capacity is None:
        capacity = 2 * max(_largest(s) for s in samples)
    return CompiledModel(model, samples, dtype, capacity, name, growth)


def _largest(sample: Any) -> int:
    """Returns the largest number of rows of a tensor of a sample."""
    return max(
        (
            max(
                len(v.parts()[0])
                if is_sparse(v)
                else (v.shape[0] if v.dim() else 1),
                1,
            )
            for v in leaves(change(sample, lambda t: t, lambda s: s))
            if is_sparse(v) or isinstance(v, Tensor)
        ),
        default=1,
    )
