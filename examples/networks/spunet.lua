-- SPDX-License-Identifier: Apache-2.0
-- Pointcept's SpUNet-v1m1: the stem of size 5 has a map of its own,
-- strided convolutions widen, and only the decoder's blocks have shortcuts of
-- size 1.
local blocks = include "blocks.lua"
local unet = include "unet.lua"

network "SpUNet-v1m1"
local x = input {channels = 6}

x = blocks.relu(x, "subm,k=5,cout=32", "conv_input.0", "conv_input.1",
                {eps = 1e-3, key = "stem"})
local names = {
  down = function(i) return "down." .. i - 1 .. ".0",
                            "down." .. i - 1 .. ".1" end,
  encode = function(i) return "enc." .. i - 1 end,
  up = function(i) return "up." .. 4 - i .. ".0", "up." .. 4 - i .. ".1" end,
  decode = function(i) return "dec." .. 4 - i end,
  parts = {"conv1", "bn1", "conv2", "bn2", "proj.0", "proj.1"},
  eps = 1e-3,
}
x = unet(names, x, {32, 64, 128, 256}, {32, 64, 128, 256}, {256, 128, 96, 96},
         {2, 3, 4, 6, 2, 2, 2, 2})
x = conv(x, "subm,k=1,bias=1,cout=20", {name = "final"})
output(x, "classes")
