-- SPDX-License-Identifier: Apache-2.0
-- mmdetection3d's MinkUNet of width 20: 20, 40, 81 and 163 channels, whose
-- rows are not aligned.
local blocks = include "blocks.lua"
local unet = include "unet.lua"

network "MinkUNet w20"
local x = input {channels = 4}

x = blocks.relu(x, "subm,k=3,cout=20", "conv_input.0.0", "conv_input.0.1")
x = blocks.relu(x, "subm,k=3,cout=20", "conv_input.1.0", "conv_input.1.1")
local names = {
  down = function(i) return "encoder." .. i - 1 .. ".0.0",
                            "encoder." .. i - 1 .. ".0.1" end,
  encode = function(i) return "encoder." .. i - 1 end,
  first = 1, -- after the convolution down
  up = function(i) return "decoder." .. i - 1 .. ".0.0",
                          "decoder." .. i - 1 .. ".0.1" end,
  decode = function(i) return "decoder." .. i - 1 .. ".1" end,
}
x = unet(names, x, {20, 20, 40, 81}, {20, 40, 81, 163}, {163, 81, 61, 61},
         {2, 2, 2, 2, 2, 2, 2, 2})
output(x, "out")
