-- SPDX-License-Identifier: Apache-2.0
-- The sparse convolutions of PointTransformerV3: the stem of size 5, one of
-- size 3 in each block, which encodes positions for attention, pooling by
-- maxima and unpooling. Attention and its shortcut are left out. The batch
-- normalisations after the maxima (down.norm.0) have no convolution to be
-- folded into: files have them as weight and bias alone.
network "PTv3 convolutions"
local x = input {channels = 6}
local halved = ",rule=floor,k=2,stride=2"

-- Width c, `depth` blocks: a convolution, and a linear layer with its
-- normalisation, added to the input.
local function stage(x, depth, name)
  for i = 0, depth - 1 do
    local block = name .. ".block" .. i .. ".cpe"
    local y = conv(x, "subm,k=3,bias=1,cout=" .. channels(x),
                   {name = block .. ".0"})
    y = conv(y, "subm,k=1,bias=1,cout=" .. channels(x), {name = block .. ".1"})
    y = feature(y, "norm=layer,affine=1", {name = block .. ".2"})
    x = feature(y, "add", {add = x, name = block .. ".add"})
  end
  return x
end

-- A linear layer, its normalisation and an activation, on the way up.
local function linear(x, width, name)
  return conv(x, "subm,k=1,cout=" .. width .. ",epilogue=scale+bias+gelu",
              {name = name .. ".0", norm = name .. ".1", eps = 1e-3})
end

-- A linear layer, maxima, then the normalisation and the activation.
local function pooled(x, width, name)
  x = conv(x, "subm,k=1,bias=1,cout=" .. width, {name = name .. ".proj"})
  x = feature(x, "pool=max" .. halved)
  return feature(x, "affine,act=gelu", {name = name .. ".norm.0"})
end

local encoder, depths = {32, 64, 128, 256, 512}, {2, 2, 2, 6, 2}

x = conv(x, "subm,k=5,cout=32,epilogue=scale+bias+gelu",
         {name = "embedding.stem.conv", norm = "embedding.stem.norm",
          eps = 1e-3})
local skips = {}
for s = 1, 5 do
  local name = "enc.enc" .. s - 1
  if s > 1 then
    x = pooled(x, encoder[s], name .. ".down")
  end
  x = stage(x, depths[s], name)
  skips[s] = x
end
local decoder = {64, 64, 128, 256}
for s = 4, 1, -1 do
  local name = "dec.dec" .. s - 1
  local below = linear(x, decoder[s], name .. ".up.proj")
  local beside = linear(skips[s], decoder[s], name .. ".up.proj_skip")
  below = feature(below, "unpool=nearest" .. halved)
  x = stage(feature(below, "add", {add = beside, name = name .. ".up"}), 2,
            name)
end
output(x, "points")
