# SPDX-License-Identifier: Apache-2.0
"""Lowering: the part of a tape for which libspc has operators becomes a graph.

The graph begins with the features of the first layer and ends at an unknown
operator or an unknown set of voxels. Normalisation, bias, residual and
activation become the epilogue of the layer before them, unless other operators
read the tensors between them (spc/layer.h, "the epilogue").
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

import torch
from torch import Tensor
from torch.nn import functional as F

from . import _abi, maps
from .maps import Map
from .network import NO_TENSOR, Graph
from .trace import Entry, Ref, Tape, TraceError, leaves, writes

__all__ = ["Lowered", "lower"]

_STRIDED = (_abi.SPC_CONV, _abi.SPC_GENERATIVE)


class Node:
    """An operator of the graph. kind: input, conv, affine, act, add, concat,
    view, group or dense; `set` has the voxels of its rows; `number` is that of
    the tensor on the tape."""

    def __init__(
        self,
        kind: str,
        number: int,
        inputs: List["Node"],
        set: Any,
        channels: int,
        entry: Optional[Entry],
        **facts: Any,
    ) -> None:
        self.kind, self.number, self.inputs = kind, number, inputs
        self.set, self.channels, self.entry = set, channels, entry
        self.facts = facts
        self.readers = 0  # nodes that read it
        self.is_output = False
        self.tensor = NO_TENSOR  # number in the graph
        self.epilogue: List["Node"] = []  # the operators after a conv


class Lowered(NamedTuple):
    """graph     with all weights
    outputs   numbers of the outputs on the tape, in their order
    voxels       numbers on the tape that are the voxels of an output, with its
                 index
    features, indices   numbers of the inputs
    absorbed     entries of the tape that the graph computes
    layers       number of convolutions"""

    graph: Graph
    outputs: List[int]
    voxels: Dict[int, int]
    features: int
    indices: int
    absorbed: Set[int]
    layers: int


# ---- operators ---------------------------------------------------------------


def _not_ours(entry: Entry) -> bool:
    return False


class _Lowering:
    """Walks the tape and makes nodes."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.nodes: List[Node] = []
        self.by_number: Dict[int, Node] = {}
        self.sets: List[Any] = []  # sets of voxels, the input's set first
        self.absorbed: Set[int] = set()

    def node(self, value: Any) -> Optional[Node]:
        """Returns the node of an argument, or None if it is not a tensor of the
        graph."""
        return (
            self.by_number.get(value.number) if isinstance(value, Ref) else None
        )

    def make(
        self,
        kind: str,
        entry: Entry,
        inputs: List[Node],
        set: Any,
        channels: int,
        **facts: Any,
    ) -> Node:
        """Makes a node for the result of an entry."""
        node = Node(
            kind, entry.out.number, inputs, set, channels, entry, **facts
        )
        self.nodes.append(node)
        self.by_number[node.number] = node
        return node

    def begin(self, entry: Entry) -> None:
        """Makes the input: the features that the first layer reads."""
        x, m = entry.args[0], entry.map
        assert m is not None
        if (
            not isinstance(x, Ref)
            or m.inverse
            and m.words.startswith("inverse")
        ):
            return
        r = m.relation
        root = r.coarse if m.inverse else r.fine
        node = Node(
            "input", x.number, [], root, self.tape.shapes[x.number][1], None
        )
        self.nodes.append(node)
        self.by_number[node.number] = node
        self.sets.append(root)

    def ends(self, m: Map) -> Tuple[Any, Any]:
        """Returns the voxels of a map's inputs and outputs."""
        r = m.relation
        return (r.coarse, r.fine) if m.inverse else (r.fine, r.coarse)

    def reach(self, m: Map) -> Optional[Tuple[bool, Optional[Node]]]:
        """Returns whether the network has, or can make, the voxels of a layer's
        outputs, and for layers onto given voxels a node over these voxels.
        None: it cannot."""
        conv, to = maps.geometry_of(m.words), self.ends(m)[1]
        if (
            conv.op in (_abi.SPC_INVERSE, _abi.SPC_TRANSPOSED)
            or conv.geometry.rule == _abi.SPC_RULE_GIVEN
        ):
            at = next((n for n in self.nodes if n.set is to), None)
            return None if at is None else (True, at)
        if not any(s is to for s in self.sets):
            if conv.op not in _STRIDED:
                return None
            self.sets.append(to)
        return (True, None)

    def conv(self, entry: Entry) -> bool:
        """Adds a layer whose voxels are known."""
        if not self.nodes:
            self.begin(entry)
        x, m = self.node(entry.args[0]), entry.map
        assert m is not None
        weight, bias = entry.args[1], entry.args[2]
        if not isinstance(weight, Tensor) or isinstance(bias, Ref):
            return False  # torch runs layers whose weights are computed
        if x is None or x.set is not self.ends(m)[0]:
            return False
        reached = self.reach(m)
        if reached is None:
            return False
        self.make(
            "conv",
            entry,
            [x],
            self.ends(m)[1],
            weight.shape[0],
            weight=weight,
            bias=bias,
            words=m.words,
            at=reached[1],
            groups=x.channels // weight.shape[-1],
        )
        return True

    def pool(self, entry: Entry) -> bool:
        """Adds a pooling of known voxels."""
        x, m = self.node(entry.args[0]), entry.map
        assert m is not None
        if x is None or x.set is not self.ends(m)[0] or not self.reach(m):
            return False
        geometry = m.words.split(",", 1)[1]
        to = self.ends(m)[1]
        self.make(
            "pool",
            entry,
            [x],
            to,
            x.channels,
            word=entry.args[1],
            geometry=geometry,
        )
        return True

    def dense(self, entry: Entry) -> bool:
        """[batch, channels, x, y, z]."""
        x, indices, shape, _ = entry.args
        node = self.node(x)
        if (
            node is None
            or len(shape) != 3
            or not isinstance(indices, Ref)
            or self.tape.coords.get(indices.number) is not node.set
        ):
            return False
        self.make("dense", entry, [node], node.set, node.channels, shape=shape)
        return True

    def function(self, entry: Entry) -> bool:
        """Applies the rule of a torch function."""
        rule = _RULES.get(entry.func)
        name = getattr(entry.func, "__name__", "")
        if rule is None and getattr(torch.Tensor, name, None) is entry.func:
            rule = _RULES.get(name)
        if rule is None or not isinstance(entry.out, Ref):
            return False
        if not any(self.node(v) for v in leaves((entry.args, entry.kwargs))):
            return False
        return rule(self, entry)

    def run(self) -> None:
        """Walks the whole tape."""
        for i, entry in enumerate(self.tape.entries):
            done = {
                "conv": self.conv,
                "dense": self.dense,
                "torch": self.function,
                "map": _not_ours,
                "pool": self.pool,
            }[entry.kind](entry)
            if done:
                self.absorbed.add(i)


Rule = Callable[[_Lowering, Entry], bool]
_RULES: Dict[Any, Rule] = {}


def _rule(*functions: Any) -> Callable[[Rule], Rule]:
    """Registers a rule: functions, or names of methods of Tensor."""

    def register(rule: Rule) -> Rule:
        for function in functions:
            _RULES[function] = rule
        return rule

    return register


def _argument(entry: Entry, i: int, name: str, default: Any = None) -> Any:
    """Returns argument i of a call, by position or by name."""
    if i < len(entry.args):
        return entry.args[i]
    return entry.kwargs.get(name, default)


@_rule(F.batch_norm, torch.batch_norm)
def _batch_norm(low: _Lowering, entry: Entry) -> bool:
    x = low.node(entry.args[0])
    if entry.func is F.batch_norm:
        mean, var, weight, bias, training, _, eps = (
            _argument(entry, i, name, default)
            for i, name, default in (
                (1, "running_mean", None),
                (2, "running_var", None),
                (3, "weight", None),
                (4, "bias", None),
                (5, "training", False),
                (6, "momentum", 0.1),
                (7, "eps", 1e-5),
            )
        )
    else:
        weight, bias, mean, var, training, _, eps = entry.args[1:8]
    if training:
        raise TraceError(
            f"{entry.where}: a batch normalisation in training "
            "mode depends on the whole batch; call model.eval() "
            "first"
        )
    if x is None or not isinstance(mean, Tensor) or not isinstance(var, Tensor):
        return False
    scale = (var.detach().double() + eps).rsqrt()
    if weight is not None:
        scale = scale * weight.detach().double()
    shift = -mean.detach().double() * scale
    if bias is not None:
        shift = shift + bias.detach().double()
    low.make("affine", entry, [x], x.set, x.channels, scale=scale, shift=shift)
    return True


def _activation(word: str, slope: Optional[Tuple[str, float]] = None) -> Rule:
    def rule(low: _Lowering, entry: Entry) -> bool:
        x = low.node(entry.args[0])
        if x is None or entry.kwargs.get("approximate", "none") != "none":
            return False
        value = (
            None
            if slope is None
            else float(_argument(entry, 1, slope[0], slope[1]))
        )
        if x.kind == "dense" or value is not None and not 0 <= value <= 16:
            return False
        low.make("act", entry, [x], x.set, x.channels, word=word, slope=value)
        return True

    return rule


_rule(F.relu, torch.relu, torch.relu_, "relu", "relu_")(_activation("relu"))
_rule(F.silu)(_activation("silu"))
_rule(F.gelu)(_activation("gelu"))
_rule(F.sigmoid, torch.sigmoid, "sigmoid", "sigmoid_")(_activation("sigmoid"))
_rule(F.leaky_relu)(_activation("leaky", ("negative_slope", 0.01)))
_rule(F.elu)(_activation("elu", ("alpha", 1.0)))


@_rule(torch.add, "add", "add_", "__add__", "__radd__", "__iadd__")
def _add(low: _Lowering, entry: Entry) -> bool:
    if entry.kwargs or len(entry.args) != 2:
        return False
    a, b = low.node(entry.args[0]), low.node(entry.args[1])
    if a is not None and b is not None:
        if (
            a.set is not b.set
            or a.channels != b.channels
            or "dense" in (a.kind, b.kind)
        ):
            return False
        low.make("add", entry, [a, b], a.set, a.channels)
        return True
    node, other = (a, entry.args[1]) if a is not None else (b, entry.args[0])
    if (
        node is None
        or node.kind == "dense"
        or not isinstance(other, Tensor)
        or tuple(other.shape) not in ((node.channels,), (1, node.channels))
    ):
        return False
    shift = other.detach().double().flatten()
    low.make(
        "affine",
        entry,
        [node],
        node.set,
        node.channels,
        scale=torch.ones_like(shift),
        shift=shift,
    )
    return True


@_rule(torch.cat, torch.concat, torch.concatenate)
def _concat(low: _Lowering, entry: Entry) -> bool:
    parts = [low.node(v) for v in entry.args[0]]
    axis = _argument(entry, 1, "dim", _argument(entry, 1, "axis", 0))
    if axis not in (1, -1) or not all(parts):
        return False
    nodes = [p for p in parts if p is not None]
    if any(p.set is not nodes[0].set or p.kind == "dense" for p in nodes):
        return False
    low.make(
        "concat", entry, nodes, nodes[0].set, sum(p.channels for p in nodes)
    )
    return True


@_rule(F.linear)
def _linear(low: _Lowering, entry: Entry) -> bool:
    x, weight = low.node(entry.args[0]), _argument(entry, 1, "weight")
    bias = _argument(entry, 2, "bias")
    if (
        x is None
        or x.kind == "dense"
        or not isinstance(weight, Tensor)
        or isinstance(bias, Ref)
        or weight.dim() != 2
    ):
        return False
    low.make(
        "conv",
        entry,
        [x],
        x.set,
        weight.shape[0],
        weight=weight,
        bias=bias,
        words="subm,k=1",
        at=None,
        groups=1,
    )
    return True


@_rule("view", "reshape")
def _view(low: _Lowering, entry: Entry) -> bool:
    """[rows, c / by, by]; a sum or a mean must follow."""
    x, shape = low.node(entry.args[0]), low.tape.shapes[entry.out.number]
    if (
        x is None
        or x.kind in ("dense", "view")
        or len(shape) != 3
        or shape[0] != low.tape.shapes[x.number][0]
        or shape[1] * shape[2] != x.channels
    ):
        return False
    low.make("view", entry, [x], x.set, x.channels, by=shape[2])
    return True


def _group(word: str) -> Rule:
    def rule(low: _Lowering, entry: Entry) -> bool:
        x, axis = low.node(entry.args[0]), _argument(entry, 1, "dim")
        if (
            x is None
            or x.kind != "view"
            or axis not in (2, -1, [2], (2,))
            or entry.kwargs.get("keepdim")
            or entry.kwargs.get("dtype")
        ):
            return False
        low.make(
            "group",
            entry,
            [x],
            x.set,
            x.channels // x.facts["by"],
            word=word,
            by=x.facts["by"],
        )
        return True

    return rule


_rule(torch.sum, "sum")(_group("groupsum"))
_rule(torch.mean, "mean")(_group("groupmean"))


@_rule(F.layer_norm)
def _layer_norm(low: _Lowering, entry: Entry) -> bool:
    x, shape = low.node(entry.args[0]), _argument(entry, 1, "normalized_shape")
    weight, bias = (_argument(entry, 2, "weight"), _argument(entry, 3, "bias"))
    if (
        x is None
        or x.kind == "dense"
        or list(shape) != [x.channels]
        or (weight is None) != (bias is None)
    ):
        return False
    low.make(
        "norm",
        entry,
        [x],
        x.set,
        x.channels,
        weight=weight,
        bias=bias,
        eps=float(_argument(entry, 4, "eps", 1e-5)),
    )
    return True


def _nothing(low: _Lowering, entry: Entry) -> bool:
    """Functions that only change the type are skipped, as the network has its
    own type."""
    x = low.node(entry.args[0])
    before = low.tape.tensors[entry.args[0].number] if x is not None else None
    after = low.tape.tensors[entry.out.number]
    if (
        x is None
        or before is None
        or before.shape != after.shape
        or not after.dtype.is_floating_point
        or before.device != after.device
    ):
        return False
    low.by_number[entry.out.number] = x
    return True


_rule(
    "contiguous",
    "float",
    "half",
    "bfloat16",
    "to",
    "clone",
    "detach",
    "type_as",
)(_nothing)


@_rule(F.dropout)
def _dropout(low: _Lowering, entry: Entry) -> bool:
    return not _argument(entry, 2, "training", True) and _nothing(low, entry)


# ---- epilogues ---------------------------------------------------------------


def _follows(conv: Node, chain: List[Node], node: Node) -> bool:
    """True if a node can join the epilogue that a layer has so far."""
    kinds = [n.kind for n in chain]
    if node.kind == "affine":
        return all(k == "affine" for k in kinds)
    if node.kind == "add":
        # The sum of a tensor with itself has no residual.
        return "add" not in kinds and node.inputs[0] is not node.inputs[1]
    return node.kind == "act" and "act" not in kinds


def _fuse(nodes: List[Node]) -> None:
    """Gives layers their epilogues: a node joins the layer before it if no
    other node reads that layer."""
    owner: Dict[Node, Node] = {n: n for n in nodes if n.kind == "conv"}
    position = {n: i for i, n in enumerate(nodes)}
    for node in nodes:
        if node.kind not in ("affine", "add", "act"):
            continue
        # Takes the later of two summands, as the other exists by then.
        for x in sorted(node.inputs, key=lambda n: -position[n]):
            conv = owner.get(x)
            if (
                conv is None
                or x.readers > 1
                or x.is_output
                or not _follows(conv, conv.epilogue, node)
            ):
                continue
            conv.epilogue.append(node)
            owner[node] = conv
            break


def _address(weight: Optional[Tensor]) -> int:
    """Returns a key that is equal for a parameter and a view of the whole
    parameter."""
    return 0 if weight is None else weight.data_ptr()


class _Emitter:
    """Writes nodes to a graph."""

    def __init__(self, graph: Graph, dtype: str, names: Dict[int, str]) -> None:
        self.graph, self.dtype, self.names = graph, dtype, names
        self.plain = "f32" if dtype == "tf32" else dtype
        self.used: Dict[str, int] = {}
        self.made: List[Tuple[Any, int]] = []  # a tensor by set of voxels

    def name(self, node: Node) -> str:
        """Returns the module's name, with a suffix for each repeated use."""
        weight = node.facts.get("weight")
        base = self.names.get(_address(weight), "layer")
        count = self.used[base] = self.used.get(base, 0) + 1
        return base if count == 1 else f"{base}#{count}"

    def conv(self, node: Node) -> int:
        """Writes a layer with its epilogue."""
        facts = node.facts
        x = node.inputs[0]
        scale, shift = None, facts["bias"]
        shift = None if shift is None else shift.detach().double()
        words, residual, last = [], NO_TENSOR, node
        slope = ""
        for step in node.epilogue:
            if step.kind == "affine":
                scale = step.facts["scale"] * (1 if scale is None else scale)
                shift = step.facts["shift"] + (
                    0 if shift is None else shift * step.facts["scale"]
                )
            elif step.kind == "add":
                other = [n for n in step.inputs if n is not last][0]
                residual = other.tensor
                words.append("add")
            else:
                words.append(step.facts["word"])
                if step.facts["slope"] is not None:
                    slope = f",slope={step.facts['slope']:.9g}"
            last = step
        if shift is not None:
            words.insert(0, "bias")
        if scale is not None:
            words.insert(0, "scale")
        text = (
            f"{facts['words']},cin={x.channels},cout={node.channels},"
            f"groups={facts['groups']},dtype={self.dtype}{slope}"
        )
        if words:
            text += ",epilogue=" + "+".join(words)
        name = self.name(node)
        at = NO_TENSOR
        if facts["at"] is not None:
            # Returns an existing tensor over these voxels.
            at = next(t for v, t in self.made if v is node.set)
        tensor = self.graph.conv(
            x.tensor,
            text,
            name,
            residual,
            at,
        )
        self.graph.set_param(name, _abi.SPC_OPERAND_WEIGHTS, facts["weight"])
        if scale is not None:
            self.graph.set_param(name, _abi.SPC_OPERAND_SCALE, scale)
        if shift is not None:
            self.graph.set_param(name, _abi.SPC_OPERAND_BIAS, shift)
        last.tensor = tensor
        self.made.append((node.set, tensor))
        return tensor

    def _scaled(
        self, node: Node, words: str, scale: Tensor, shift: Tensor
    ) -> int:
        name = self.name(node)
        tensor = self.graph.feature(node.inputs[0].tensor, words, name)
        self.graph.set_param(name, _abi.SPC_OPERAND_SCALE, scale)
        self.graph.set_param(name, _abi.SPC_OPERAND_BIAS, shift)
        return tensor

    def other(self, node: Node) -> int:
        """Writes a node as a separate step."""
        x, facts = node.inputs[0], node.facts
        c, types = f"c={x.channels}", f",dtype={self.plain}"
        if node.kind == "affine":
            return self._scaled(
                node, f"affine,{c}{types}", facts["scale"], facts["shift"]
            )
        if node.kind == "norm":
            words = f"norm=layer,{c},eps={facts['eps']:.9g}{types}"
            if facts["weight"] is None:
                return self.graph.feature(x.tensor, words)
            return self._scaled(
                node, words + ",affine=1", facts["weight"], facts["bias"]
            )
        if node.kind == "pool":
            words = f"pool={facts['word']},{c},{facts['geometry']}{types}"
            return self.graph.feature(x.tensor, words)
        if node.kind == "concat":
            return self.graph.concat([n.tensor for n in node.inputs])
        if node.kind == "add":
            return self.graph.feature(
                x.tensor, f"add,{c}{types}", add=node.inputs[1].tensor
            )
        if node.kind == "act":
            slope = (
                "" if facts["slope"] is None else f",slope={facts['slope']:.9g}"
            )
            return self.graph.feature(
                x.tensor, f"act={facts['word']},{c}{slope}{types}"
            )
        if node.kind == "group":
            return self.graph.feature(
                x.inputs[0].tensor,
                f"{facts['word']},{c},by={facts['by']}{types}",
            )
        assert node.kind == "dense"
        shape = "x".join(map(str, facts["shape"]))
        return self.graph.feature(
            x.tensor, f"bev,{c},shape={shape},order=volume{types}"
        )

    def run(self, nodes: List[Node]) -> None:
        """Lists all nodes except the input; a layer comes where its epilogue
        ends."""
        self.made.append((nodes[0].set, nodes[0].tensor))
        last = {
            n.epilogue[-1] if n.epilogue else n: n
            for n in nodes
            if n.kind == "conv"
        }
        joined = {e for n in nodes for e in n.epilogue}
        for node in nodes:
            if node in last:
                self.conv(last[node])
            elif (
                node.kind not in ("input", "view", "conv")
                and node not in joined
            ):
                node.tensor = self.other(node)
                if node.kind != "dense":
                    self.made.append((node.set, node.tensor))


# ---- the graph ---------------------------------------------------------------


def _output_of_set(nodes: List[Node], coords: Any) -> Optional[Node]:
    """Returns an output over a set of voxels, else the last node over it."""
    over = [
        n
        for n in nodes
        if n.set is coords and n.kind not in ("view", "dense", "input")
    ]
    return next((n for n in over if n.is_output), over[-1] if over else None)


def lower(
    tape: Tape,
    wanted: Dict[int, str],
    name: str,
    dtype: str,
    names: Dict[int, str],
) -> Optional[Lowered]:
    """Returns the graph of a tape, or None if its first operator is unknown.

    wanted  numbers on the tape that the result has, with their names
    names   names of layers by the addresses of their weights
    """
    low = _Lowering(tape)
    low.run()
    nodes = low.nodes
    if len(nodes) < 2:
        return None
    _drop_views(low)
    nodes = low.nodes
    needed = _needed(low, wanted)
    for node in nodes:
        for x in node.inputs:
            x.readers += 1
    for number in needed:
        read = low.by_number.get(number)
        if read is not None and read.kind != "input":
            read.is_output = True
    voxel_sets = {
        number: coords
        for number, coords in tape.coords.items()
        if number in needed
        and coords is not low.sets[0]
        and any(coords is s for s in low.sets)
    }
    for coords in voxel_sets.values():
        over = _output_of_set(nodes, coords)
        if over is not None:
            over.is_output = True
    nodes = _live(nodes)
    _fuse(nodes)
    return _emit(low, nodes, wanted, voxel_sets, name, dtype, names)


def _needed(low: _Lowering, wanted: Dict[int, str]) -> Set[int]:
    """Returns the numbers of the result, and of all that torch reads to make
    it. A set of voxels that the network makes needs nothing more: were its
    inputs needed, every level of the network would become an output."""
    needed: Set[int] = set(wanted)
    for i in reversed(range(len(low.tape.entries))):
        entry = low.tape.entries[i]
        outs = {v.number for v in leaves(entry.out) if isinstance(v, Ref)}
        if i in low.absorbed or not (outs & needed or writes(entry)):
            continue
        coords = [low.tape.coords.get(number) for number in outs]
        if entry.kind == "map" and all(
            c is not None and _output_of_set(low.nodes, c) is not None
            for c in coords
        ):
            continue
        needed |= {
            v.number
            for v in leaves((entry.args, entry.kwargs))
            if isinstance(v, Ref)
        }
    return needed


def _drop_views(low: _Lowering) -> None:
    """If another operator than a sum reads a view, torch runs the view and all
    operators after it."""
    read = {
        v.number
        for i, e in enumerate(low.tape.entries)
        if i not in low.absorbed
        for v in leaves((e.args, e.kwargs))
        if isinstance(v, Ref)
    }
    gone: Set[Node] = {
        n for n in low.nodes if n.kind == "view" and n.number in read
    }
    for node in low.nodes:
        if any(x in gone for x in node.inputs):
            gone.add(node)
    low.nodes = [n for n in low.nodes if n not in gone]
    for i, entry in enumerate(low.tape.entries):
        if low.node(entry.out) in gone:
            low.absorbed.discard(i)
    low.by_number = {k: n for k, n in low.by_number.items() if n not in gone}


def _live(nodes: List[Node]) -> List[Node]:
    """Returns the nodes that lead to an output."""
    live: Set[Node] = set()
    for node in reversed(nodes):
        if node.is_output or node in live or node.kind == "input":
            live.add(node)
            live.update(node.inputs)
            if node.facts.get("at") is not None:
                live.add(node.facts["at"])
    for node in nodes:
        if node not in live:
            for x in node.inputs:
                x.readers -= 1
    return [n for n in nodes if n in live]


def _output_names(outputs: List[Node], wanted: Dict[int, str]) -> List[str]:
    """Returns names by the position in the result; other outputs are y and a
    number."""
    made: List[str] = []
    for i, node in enumerate(outputs):
        name = (
            "".join(
                c if c.isalnum() or c in "._-" else "_"
                for c in wanted.get(node.number, "")
            )[:60]
            or f"y{i}"
        )
        made.append(name if name not in made else f"{name}.{i}")
    return made


def _emit(
    low: _Lowering,
    nodes: List[Node],
    wanted: Dict[int, str],
    voxel_sets: Dict[int, Any],
    name: str,
    dtype: str,
    names: Dict[int, str],
) -> Lowered:
    root = nodes[0]
    indices = [n for n, coords in low.tape.coords.items() if coords is root.set]
    graph = Graph(name)
    root.tensor = graph.input(
        root.channels, "f32" if dtype == "tf32" else dtype, _shape(nodes)
    )
    _Emitter(graph, dtype, names).run(nodes)
    outputs = [n for n in nodes if n.is_output]
    for node, word in zip(outputs, _output_names(outputs, wanted)):
        graph.output(node.tensor, word)
    voxels: Dict[int, int] = {}
    for number, coords in voxel_sets.items():
        found = _output_of_set(outputs, coords)
        if found is not None:
            voxels[number] = outputs.index(found)
    return Lowered(
        graph,
        [n.number for n in outputs],
        voxels,
        root.number,
        min(indices),
        low.absorbed,
        sum(n.kind == "conv" for n in nodes),
    )


def _shape(nodes: List[Node]) -> Tuple[int, int, int]:
    """Returns the voxels of the input along each axis, which a strided layer on
    the input's set states; 0 if no layer does."""
    for node in nodes:
        if node.kind == "conv" and node.inputs[0].set is nodes[0].set:
            geometry = maps.geometry_of(node.facts["words"]).geometry
            if geometry.rule == _abi.SPC_RULE_FOOTPRINT and all(geometry.shape):
                x, y, z = geometry.shape
                return (x, y, z)
    for node in nodes:
        if node.kind == "dense" and node.set is nodes[0].set:
            x, y, z = node.facts["shape"]
            return (x, y, z)
    return (0, 0, 0)
