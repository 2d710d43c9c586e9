#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the weights of a PyTorch checkpoint as .safetensors.

    pth2safetensors.py MODEL.pth [-o MODEL.safetensors] [--key model_state]

Needs PyTorch. If a checkpoint has several entries, the table of tensors is taken;
--key names it if there are two. Tensors keep their names, types and shapes:
'spctune weights --from ENGINE' converts the order of kernels.
"""
import argparse
import json
import os
import struct
import sys

# PyTorch's names of types, and their names in safetensors.
TYPES = {
    "torch.bool": "BOOL",
    "torch.uint8": "U8",
    "torch.int8": "I8",
    "torch.int16": "I16",
    "torch.int32": "I32",
    "torch.int64": "I64",
    "torch.float16": "F16",
    "torch.bfloat16": "BF16",
    "torch.float32": "F32",
    "torch.float64": "F64",
    "torch.float8_e4m3fn": "F8_E4M3",
    "torch.float8_e5m2": "F8_E5M2",
}


class Mistake(Exception):
    """What is wrong with a file, in one sentence."""


def is_table(value, is_tensor):
    """Is it a table of tensors, with or without other things beside them?"""
    return isinstance(value, dict) and any(map(is_tensor, value.values()))


def find_table(checkpoint, key, is_tensor):
    """The table of tensors in a checkpoint: that of `key`, or the only one."""
    if key is not None:
        for part in key.split("."):
            if not isinstance(checkpoint, dict) or part not in checkpoint:
                raise Mistake(f"there is no '{key}' in the checkpoint")
            checkpoint = checkpoint[part]
        if not is_table(checkpoint, is_tensor):
            raise Mistake(f"'{key}' of the checkpoint holds no tensors")
        return checkpoint
    if is_table(checkpoint, is_tensor):
        return checkpoint
    if not isinstance(checkpoint, dict):
        raise Mistake("the checkpoint is not a dict of tensors: save "
                      "model.state_dict()")
    found = [name for name, value in checkpoint.items()
             if is_table(value, is_tensor)]
    if len(found) != 1:
        raise Mistake("the checkpoint holds "
                      + (", ".join(found) if found else "no dict of tensors")
                      + ": say which with --key")
    return checkpoint[found[0]]


def pack(name, tensor, bytes_type):
    """A tensor as (type, shape, bytes), whatever its strides were."""
    kind = str(tensor.dtype)
    if kind not in TYPES:
        raise Mistake(f"'{name}' has elements of type {kind}, which a "
                      ".safetensors file cannot hold")
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    data = flat.view(bytes_type).numpy().tobytes() if flat.numel() else b""
    return TYPES[kind], [int(size) for size in tensor.shape], data


def layout(arrays):
    """The header, its arrays one after the other, widest elements first so that
    all lie at multiples of their size."""
    width = {"64": 0, "32": 1, "16": 2}
    order = sorted(arrays, key=lambda name: (
        width.get(arrays[name][0][-2:], 3), name))
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name in order:
        kind, shape, data = arrays[name]
        header[name] = {"dtype": kind, "shape": shape,
                        "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":"),
                      ensure_ascii=False).encode()
    return order, text + b" " * (-len(text) % 8)


def write(path, arrays):
    """Writes the file beside its place and moves it there: whole or not."""
    order, header = layout(arrays)
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(beside, "wb") as out:
            out.write(struct.pack("<Q", len(header)))
            out.write(header)
            for name in order:
                out.write(arrays[name][2])
        os.replace(beside, path)
    except OSError:
        if os.path.exists(beside):
            os.remove(beside)
        raise


def load(torch, path, trusted):
    """The checkpoint. Code that a file may bring along is run only if it is
    trusted."""
    try:
        return torch.load(path, map_location="cpu", weights_only=not trusted)
    except OSError:
        raise
    except Exception as cause:  # whatever unpickling comes upon
        raise Mistake(f"PyTorch cannot read it: {cause}"
                      + ("" if trusted else "; --trust reads files that hold "
                         "more than tensors, and runs their code")) from cause


def convert(torch, path, out, key, trusted=False):
    table = find_table(load(torch, path, trusted), key, torch.is_tensor)
    arrays = {}
    for name, value in table.items():
        if torch.is_tensor(value):
            arrays[str(name)] = pack(name, value, torch.uint8)
        else:
            print(f"{path}: '{name}' is not a tensor and is left out",
                  file=sys.stderr)
    write(out, arrays)
    return len(arrays)


def main(words):
    parser = argparse.ArgumentParser(
        description="writes the weights of a PyTorch checkpoint as "
                    ".safetensors")
    parser.add_argument("file")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="default: the same name with .safetensors")
    parser.add_argument("--key", help="of the table of tensors: model_state, "
                                      "or net.encoder in a table of tables")
    parser.add_argument("--trust", action="store_true",
                        help="read files that run code of their own, too")
    args = parser.parse_args(words)
    out = args.output or os.path.splitext(args.file)[0] + ".safetensors"
    try:
        import torch
    except ImportError:
        print("pth2safetensors: PyTorch is not here: run it where the model "
              "was trained", file=sys.stderr)
        return 7
    try:
        count = convert(torch, args.file, out, args.key, args.trust)
    except (Mistake, OSError) as cause:
        print(f"pth2safetensors: {args.file}: {cause}", file=sys.stderr)
        return 1
    print(f"{out}: {count} arrays")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
