# SPDX-License-Identifier: Apache-2.0
"""spconv-Triton, which has spconv's interface."""

from typing import Any

import peers
import peers.spconv


class Engine(peers.spconv.Engine):
    module, package = "spconv_triton.pytorch", "spconv_triton"

    def __init__(self, device: Any) -> None:
        peers.need_gpu(device, "spconv-Triton")
        super().__init__(device)
