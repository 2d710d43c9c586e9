-- SPDX-License-Identifier: Apache-2.0
-- U-shaped networks that segment scans: four levels down and up again by
-- convolutions of size 2, stride 2. Each network passes its widths.
local blocks = include "blocks.lua"

-- n:      a table of functions that name the layers; blocks of the encoder
--         count from n.first
-- x:      the stem's result
-- down:   widths of the four convolutions down
-- encode, decode: widths of the stages, and
-- depth:  number of residual blocks in each of the eight
local function unet(n, x, down, encode, decode, depth)
  local skips = {}
  for level = 1, 4 do
    skips[level] = x
    local conv_name, norm_name = n.down(level)
    x = blocks.relu(x, "conv,k=2,stride=2,rule=floor,cout=" .. down[level],
                    conv_name, norm_name, {eps = n.eps})
    x = blocks.stage(x, encode[level], depth[level], n.encode(level), n.parts,
                     n.eps, n.first)
  end
  for level = 4, 1, -1 do
    local width = decode[5 - level]
    local conv_name, norm_name = n.up(5 - level)
    x = blocks.relu(x, "inverse,k=2,stride=2,rule=floor,cout=" .. width,
                    conv_name, norm_name, {eps = n.eps})
    x = cat(x, skips[level])
    x = blocks.stage(x, width, depth[9 - level], n.decode(5 - level), n.parts,
                     n.eps)
  end
  return x
end

return unet
