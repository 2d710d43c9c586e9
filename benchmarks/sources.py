# SPDX-License-Identifier: Apache-2.0
"""Every figure and table of four sources, and the scripts that reproduce them:
Spira (two texts of one paper), FlexGEMM, PointCNN++ and WarpConvNet."""

from typing import Dict, List, NamedTuple

NEVER = "not measured yet"


class Figure(NamedTuple):
    """A figure or table of a source.

    label, shows   its name, and what it shows
    script         of this folder; "": it has nothing to measure
    only           the rows of the script's results that belong to it: values of
                   columns, or beginnings of them
    claim          the source's own figure
    note           what the project lacks, or why nothing is measured
    """

    label: str
    shows: str
    script: str = ""
    only: Dict[str, str] = {}
    claim: str = ""
    note: str = ""


SPIRA, FLEX = "Spira", "FlexGEMM"
POINT, WARP = "PointCNN++", "WarpConvNet"
GENERAL = {"forward": "inference", "step": "training"}

FIGURES: Dict[str, List[Figure]] = {
    SPIRA: [
        Figure(
            "Fig. 1, 4, 5, 6", "dataflows, search, layouts", note="drawings"
        ),
        Figure(
            "Fig. 2",
            "a layer by phases: search, layout, features",
            "spira_breakdown",
            claim="1.98 times TorchSparse++, 1.60 Minuet (second layer)",
        ),
        *(
            Figure(
                "Fig. 3",
                f"density of offsets of L1 norm {norm}, K5",
                "spira_density",
                {"layer": f"K5, norm {norm}"},
                claim,
            )
            for norm, claim in ((1, "39.4 %, a mean"), (6, "5.4 %, a mean"))
        ),
        Figure(
            "Fig. 7",
            "whole networks on three datasets",
            "spira_networks",
            {"unit": "us"},
            claim="1.71 times the others, at most 2.31",
        ),
        Figure(
            "Fig. 8",
            "layers with their maps",
            "spira_layers",
            {"pass": "with map"},
            "2.13 times Minuet, 1.95 TorchSparse++",
        ),
        Figure(
            "Fig. 8",
            "the same layers, maps made before",
            "spira_layers",
            {"pass": "forward"},
        ),
        Figure(
            "Fig. 9",
            "a layer over the threshold t",
            "spira_threshold",
            claim="hybrid 1.13 times one dataflow",
        ),
        Figure(
            "Fig. 10",
            "searches over voxels and K",
            "spira_maps",
            claim="2.85 times Minuet, 9.49 TorchSparse++, 3.45 binary search",
        ),
        Figure(
            "Fig. 11",
            "gain of each idea, 32→32 K5",
            "spira_ablation",
            claim="1.75, then 1.98 times TorchSparse++",
        ),
        Figure(
            "Fig. 12",
            "indexing of a network at once, or layer by layer",
            "spira_indexing",
            claim="1.72 times, the network 1.12",
        ),
        Figure(
            "section 5.4",
            "maps from half a search",
            "spira_maps",
            {"engine": "half"},
            "half of the map",
            "the map itself stays whole",
        ),
        Figure(
            "section 5.5",
            "peak memory of networks",
            "spira_networks",
            {"what": "peak"},
            "maps: 40 MB, a mean",
        ),
        Figure(
            "section 6.2",
            "keys of 32 and 64 bits; share of pack and sort",
            "spira_keys",
            claim="no difference; 1.3 and 1.6 %",
        ),
    ],
    FLEX: [
        Figure(
            f"{pass_}, {dtype}",
            "resolution 8 to 1024, 64 to 1024 channels",
            "flexgemm_speed",
            {"pass": which, "dtype": name},
            "about twice the others" if name != "f32" else "",
        )
        for which, pass_ in (("step", "training"), ("forward", "inference"))
        for name, dtype in (("f16", "FP16"), ("tf32", "TF32"), ("f32", "FP32"))
    ]
    + [
        Figure(
            f"{label}, {GENERAL[which]}",
            f"{algorithm} beside the final one",
            "flexgemm_algorithms",
            {"pass": which, "engine": algorithm},
            claim,
        )
        for label, algorithm, claim in (
            ("explicit GEMM", "explicit", "10 % of the speed"),
            ("implicit GEMM", "implicit", ""),
            ("split-K", "split-K", ""),
            ("masked", "masked", "1.2 to 1.4 times implicit"),
        )
        for which in ("step", "forward")
    ]
    + [
        Figure(
            "explicit GEMM, text",
            "peak memory of each algorithm",
            "flexgemm_algorithms",
            {"what": "peak"},
            "explicit: 10 times the memory",
        )
    ],
    POINT: [
        Figure("Fig. 1, 2, algorithm 1", "the operator", note="drawings"),
        Figure(
            "Fig. 3",
            "memory of one layer, 64→128",
            "pointcnn_layer",
            {"what": "peak"},
            "least of all, 10 times below point methods",
        ),
        Figure(
            "Fig. 4",
            "time of one layer, 64→128",
            "pointcnn_layer",
            {"unit": "us"},
            "fastest of all",
        ),
        Figure(
            "Fig. 5",
            "ResNet-18, forward and backward",
            "pointcnn_resnet",
            claim="fastest of all",
        ),
        Figure(
            "Table 1, 2",
            "registration: accuracy on KITTI and 3DMatch",
            claim="recall 99.8 %; 90.3 %",
            note="needs both datasets and days of training",
        ),
        Figure(
            "Table 3",
            "ResUNet2: time and memory of an iteration",
            "pointcnn_training",
            claim="0.102 s, 2.43 GB; MinkowskiEngine 0.131 s, 2.61 GB",
            note="voxels, random data; mIoU needs nuScenes",
        ),
    ],
    WARP: [
        Figure("kinds of sparsity", "terms", note="no figures"),
        Figure(
            "output coordinates",
            "each rule of outputs; two axes",
            "warpconvnet_regimes",
            claim="offered",
        ),
        Figure(
            "tested matrix",
            "K 3, 5, 7 by 1, 2, 4 groups, and depthwise",
            "warpconvnet_groups",
            claim="correct on an RTX 6000 Ada",
        ),
        Figure(
            "three kernels",
            "forward, dgrad and wgrad alone",
            "warpconvnet_passes",
            claim="no algorithm wins all",
        ),
        Figure(
            "AB, ABt and AtB backends",
            "the best of each template, layer by layer",
            "warpconvnet_algorithms",
            claim="'production' wins most of AB and ABt",
        ),
        Figure("source files", "names of files", note="no figures"),
    ],
}


# The headings of the page.
TITLES = {
    "spira_breakdown": "A layer by phases",
    "spira_networks": "Whole networks",
    "spira_layers": "Layers",
    "spira_density": "Density of offsets",
    "spira_threshold": "The threshold of hybrids",
    "spira_maps": "Kernel maps",
    "spira_ablation": "The gain of each idea",
    "spira_indexing": "Indexing of networks",
    "spira_keys": "Keys",
    "flexgemm_speed": "Resolution and channels",
    "flexgemm_algorithms": "Explicit, implicit, split-K, masked",
    "pointcnn_layer": "Layers of points",
    "pointcnn_resnet": "ResNet-18 on points",
    "pointcnn_training": "A training iteration",
    "warpconvnet_regimes": "Rules of outputs",
    "warpconvnet_groups": "Groups",
    "warpconvnet_passes": "Forward pass and gradients",
    "warpconvnet_algorithms": "Dataflows",
}
