#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""onnxruntime.py - the operator for ONNX Runtime gives the bits of libspc.

    python3 onnxruntime.py LIBRARY SPCTUNE REFERENCE

Needs numpy, onnx and onnxruntime; ends with 77 without them.
"""
import os
import subprocess
import sys
import tempfile

# This file has the name of the package that it imports.
sys.path.pop(0)
try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

library, spctune, reference = map(os.path.abspath, sys.argv[1:])
CAPACITY = 3000
TYPES = {"f32": (TensorProto.FLOAT, np.float32),
         "f16": (TensorProto.FLOAT16, np.float16)}
NETWORK = """network "small"
local x = input {channels = 4, shape = {64, 64, 8}}
x = conv(x, "subm,cout=16,k=3,epilogue=scale+bias+relu", {name = "first"})
output(x, "same")
x = conv(x, "conv,cout=32,k=3,stride=2,padding=1,rule=footprint,epilogue=bias+relu",
         {name = "down"})
output(x, "rows")
output(feature(x, "bev,order=zyx"), "bev")
"""


def model(dtype, outputs, inputs=3, **attributes):
    """Makes a graph with an operator of ONNX and then this one."""
    element = TYPES[dtype][0]
    kept = {"database": os.environ["SPC_DATABASE"], "capacity": CAPACITY,
            "network": f"small_{dtype}", **attributes}
    names = ["y", "voxels", "rows"][:outputs]
    nodes = [helper.make_node("Identity", ["features"], ["x"]),
             helper.make_node("SpcNet", ["x", "coordinates", "count"][:inputs],
                              names, domain="spctune",
                              **{k: v for k, v in kept.items() if v != ""})]
    given = [helper.make_tensor_value_info("features", element, ["n", "c"]),
             helper.make_tensor_value_info("coordinates", TensorProto.INT32,
                                           ["n", 4]),
             helper.make_tensor_value_info("count", TensorProto.INT32, [1])]
    kinds = [element, TensorProto.INT32, TensorProto.INT32]
    graph = helper.make_graph(
        nodes, "test", given[:inputs],
        [helper.make_tensor_value_info(n, k, None)
         for n, k in zip(names, kinds)])
    out = helper.make_model(graph, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("spctune", 1)])
    out.ir_version = 9
    return out.SerializeToString()


def session(*args, **attributes):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(library)
    return ort.InferenceSession(model(*args, **attributes), options,
                                providers=["CPUExecutionProvider"])


def frame(rows, dtype, seed):
    """Returns distinct voxels and their features."""
    draw = np.random.default_rng(seed)
    cells = draw.choice(64 * 64 * 8, rows, replace=False)
    coords = np.stack([0 * cells, cells // 512, cells // 8 % 64, cells % 8], 1)
    return (draw.standard_normal((rows, 4)).astype(TYPES[dtype][1]),
            coords.astype(np.int32))


def expected(folder, dtype, output, features, coords):
    paths = [os.path.join(folder, n) for n in ("coords", "features", "out")]
    coords.tofile(paths[0])
    features.tofile(paths[1])
    subprocess.run([reference, os.environ["SPC_DATABASE"], f"small_{dtype}",
                    output, str(CAPACITY), *paths], check=True)
    with open(paths[2], "rb") as file:
        return file.read()


def compare(folder):
    checked = 0
    for dtype, (_, kind) in TYPES.items():
        plane = session(dtype, 1, output="bev")
        rows = session(dtype, 3, output="rows")
        alone = session(dtype, 1, inputs=2)  # the last output is not a count
        for seed, n in enumerate((1, 777, CAPACITY, 0, 500)):
            features, coords = frame(n, dtype, seed)
            more = np.concatenate([features, features[:min(n, CAPACITY - n)]])
            where = np.concatenate([coords, coords[:min(n, CAPACITY - n)]])
            feed = {"features": more, "coordinates": where,
                    "count": np.array([n], np.int32)}
            bev, = plane.run(None, feed)
            assert bev.shape == (1, 32 * 4, 32, 32) and bev.dtype == kind
            assert bev.any() == (n > 0)
            assert bev.tobytes() == expected(folder, dtype, "bev", features,
                                             coords), (dtype, n)
            same, = alone.run(None, {"features": features,
                                     "coordinates": coords})
            assert same.tobytes() == bev.tobytes()
            y, voxels, count = rows.run(None, feed)
            k = int(count[0])
            assert y[:k].tobytes() + voxels[:k].tobytes() == expected(
                folder, dtype, "rows", features, coords), (dtype, n)
            checked += 1
    print(f"{checked} frames have the same bits")


def caller_rows():
    """If outputs are at the input's voxels, the coordinates are the input's."""
    features, coords = frame(100, "f32", 9)
    run = session("f32", 3, output="same").run(None, {
        "features": features, "coordinates": coords,
        "count": np.array([100], np.int32)})
    assert int(run[2][0]) == 100 and (run[1][:100] == coords).all()


def threads():
    """One session serves several threads, each frame by frame."""
    from concurrent.futures import ThreadPoolExecutor
    plane = session("f32", 1, output="bev", inputs=2)
    feeds = [dict(zip(("features", "coordinates"), frame(400, "f32", s)))
             for s in range(4)]
    alone = [plane.run(None, f)[0] for f in feeds]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for a, b in zip(alone, pool.map(lambda f: plane.run(None, f)[0],
                                            feeds)):
                assert (a == b).all()


def refused(sentence, call):
    try:
        call()
    except Exception as error:  # exceptions of ONNX Runtime
        assert sentence in str(error), f"'{error}' lacks '{sentence}'"
        print(str(error).split("SpcNet: ")[-1][:120])
        return
    raise AssertionError(f"was not refused: {sentence}")


def refusals():
    refused("has no network 'small_f99'",
            lambda: session("f32", 1, network="small_f99"))
    refused("no network was named", lambda: session("f32", 1, network=""))
    refused("cannot open the database '/nowhere.db'",
            lambda: session("f32", 1, database="/nowhere.db"))
    refused("has no output 'none'; its outputs are: same, rows, bev",
            lambda: session("f32", 1, output="none"))
    refused("the capacity is 0", lambda: session("f32", 1, capacity=0))
    refused("may have 1023 bytes",
            lambda: session("f32", 1, output="x" * 2000))
    refused("must have three numbers",
            lambda: session("f32", 1, low=[0, 0]))
    plane = session("f32", 1, output="bev")
    features, coords = frame(10, "f32", 1)

    def run(features=features, coords=coords, count=10, net=plane):
        net.run(None, {"features": features, "coordinates": coords,
                       "count": np.array([count], np.int32)})
    run()
    refused("expected [N, 4]", lambda: run(features=features[:, :3]))
    refused("the coordinates must be [10, 4]", lambda: run(coords=coords[:9]))
    refused("the count is 11, but there are 10 rows", lambda: run(count=11))
    refused("the count is -1", lambda: run(count=-1))
    big = frame(CAPACITY + 1, "f32", 1)
    refused("3001 rows, but the capacity is 3000",
            lambda: run(*big, count=1))
    twice = coords.copy()
    twice[3] = twice[2]
    refused("first in row 3", lambda: run(coords=twice))
    outside = coords.copy()
    outside[5, 1] = 64
    refused("its x is outside", lambda: run(coords=outside))
    refused("neither coordinates nor",
            lambda: run(net=session("f32", 3, output="bev")))
    refused("element type 10, but the network takes 1", lambda: session(
        "f16", 1, network="small_f32").run(None, {
            "features": features.astype(np.float16), "coordinates": coords,
            "count": np.array([10], np.int32)}))
    run()  # the session must still work


with tempfile.TemporaryDirectory() as work:
    os.environ["SPC_DATABASE"] = os.path.join(work, "ort.db")
    os.environ["SPC_SHIPPED"] = ""
    lua = os.path.join(work, "small.lua")
    with open(lua, "w", encoding="ascii") as file:
        file.write(NETWORK)
    for name in TYPES:
        subprocess.run([spctune, "net", "add", lua, "--name", f"small_{name}",
                        "--dtype", name, "--seed", "1"], check=True,
                       stdout=subprocess.DEVNULL)
    compare(work)
    caller_rows()
    threads()
    refusals()
