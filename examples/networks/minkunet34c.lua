-- SPDX-License-Identifier: Apache-2.0
-- MinkUNet34C.
local minkunet = include "minkunet.lua"

network "MinkUNet34C"
minkunet(3, 20, {2, 3, 4, 6, 2, 2, 2, 2}, {32, 64, 128, 256, 256, 128, 96, 96})
