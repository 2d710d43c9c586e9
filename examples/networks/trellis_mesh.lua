-- SPDX-License-Identifier: Apache-2.0
-- TRELLIS' mesh decoder, after its transformer: 768 channels on a grid of
-- 64^3, two blocks that turn each voxel into eight, and the
-- features from which a mesh is extracted.
network "TRELLIS mesh decoder"
local x = input {channels = 768, shape = {64, 64, 64}}

local function norm(x, name)
  return feature(x, "norm=group,groups=32,affine=1,act=silu", {name = name})
end

local function subdivide(x)
  return regroup({x}, {scale = {2, 2, 2}, split = {2, 2, 2}})
end

local function block(x, width, name)
  local h = subdivide(norm(x, name .. ".act_layers.0"))
  x = subdivide(x)
  h = conv(h, "subm,k=3,bias=1,cout=" .. width,
           {name = name .. ".out_layers.0"})
  h = norm(h, name .. ".out_layers.1")
  local skip = conv(x, "subm,k=1,bias=1,cout=" .. width,
                    {name = name .. ".skip_connection"})
  return conv(h, "subm,k=3,epilogue=bias+add,cout=" .. width,
              {name = name .. ".out_layers.3", residual = skip})
end

x = block(x, 192, "upsample.0")
x = block(x, 96, "upsample.1")
output(conv(x, "subm,k=1,bias=1,cout=101", {name = "out_layer"}), "mesh")
