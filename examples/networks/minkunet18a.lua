-- SPDX-License-Identifier: Apache-2.0
-- MinkUNet18A.
local minkunet = include "minkunet.lua"

network "MinkUNet18A"
minkunet(3, 20, {2, 2, 2, 2, 2, 2, 2, 2}, {32, 64, 128, 256, 128, 128, 96, 96})
