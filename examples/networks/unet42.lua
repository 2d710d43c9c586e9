-- SPDX-License-Identifier: Apache-2.0
-- UNet42: MinkUNet as in SPVNAS and mmdetection3d, of full width; 42
-- convolutions, not counting the shortcuts.
local blocks = include "blocks.lua"
local unet = include "unet.lua"

network "UNet42"
local x = input {channels = 4}

x = blocks.relu(x, "subm,k=3,cout=32", "stem.0", "stem.1")
x = blocks.relu(x, "subm,k=3,cout=32", "stem.3", "stem.4")
local names = {
  down = function(i) return "stage" .. i .. ".0.net.0",
                            "stage" .. i .. ".0.net.1" end,
  encode = function(i) return "stage" .. i end,
  up = function(i) return "up" .. i .. ".0.net.0", "up" .. i .. ".0.net.1" end,
  decode = function(i) return "up" .. i .. ".1" end,
  first = 1, -- after the convolution down
  parts = {"net.0", "net.1", "net.3", "net.4", "downsample.0",
           "downsample.1"},
}
x = unet(names, x, {32, 32, 64, 128}, {32, 64, 128, 256}, {256, 128, 96, 96},
         {2, 2, 2, 2, 2, 2, 2, 2})
output(x, "out")
