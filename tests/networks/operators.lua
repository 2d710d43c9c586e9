-- Operators of real networks other than convolutions, normalisations and sums.
-- VoxelNeXt, UNetV2, LargeKernel3D, PTv3, TRELLIS, TRELLIS.2, TripoSF and
-- MinkowskiEngine's completion use them. Each occurs once, with few channels.
network "operators"
local x = input {channels = 8, shape = {24, 24, 16}}
local half = ",rule=floor,k=2,stride=2"

local a = conv(x, "subm,cout=8,k=3,bias=1", {name = "stem"})

-- PTv3: GELU, layer normalisation, max pooling by prefix and unpooling.
local p = conv(a, "subm,k=1,cout=8,epilogue=scale+bias+gelu", {name = "proj"})
p = feature(p, "norm=layer,affine=1", {name = "proj.norm"})
local below = feature(p, "pool=max" .. half)
output(feature(below, "unpool=nearest" .. half), "max and back")

-- TRELLIS: group normalisation within each batch element, SiLU, and children
-- with copies of the features. Then means of blocks and unpooling, and scale
-- and shift by channel.
local t = feature(below, "norm=group,groups=4,affine=1,act=silu",
                  {name = "groups"})
t = regroup({t}, {scale = {2, 2, 2}, split = {2, 2, 2}})
output(conv(t, "subm,k=3,cout=3,bias=1", {name = "children"}), "children")
local mean = feature(a, "pool=mean" .. half)
mean = feature(mean, "affine", {name = "modulation"})
output(feature(mean, "unpool=nearest" .. half), "mean and back")

-- TRELLIS.2: a mask selects children, the shortcut is repeated, and means of
-- channel groups lead down.
local wide = conv(mean, "subm,k=3,cout=32,bias=1", {name = "wide"})
local kids = conv(mean, "subm,k=1,cout=8,bias=1", {name = "kids"})
local how = {scale = {2, 2, 2}, split = {2, 2, 2}, slices = true, mask = kids,
             above = 0, room = 8}
local fine = feature(regroup({wide}, how), "norm=layer,act=silu")
local skip = feature(regroup({mean}, how), "repeat,by=4")
output(feature(conv(fine, "subm,k=3,cout=4,epilogue=bias+add",
                    {name = "fine", residual = skip}), "groupmean,by=2"),
       "predicted children")

-- Completion and TripoSF: possible voxels (a kernel of 4, then ELU) are united
-- with existing ones. A layer of one channel selects which to keep.
local g = conv(below, "generative,cout=8,k=4,stride=2,epilogue=scale+bias+elu",
               {name = "generate"})
g = regroup({g, a})
local logit = conv(g, "subm,k=1,cout=1,bias=1", {name = "occupied"})
output(logit, "occupied")
g = regroup({g}, {mask = logit, above = 0})
output(conv(g, "subm,cout=8,k=3,epilogue=bias+leaky,slope=0.125",
            {name = "kept"}), "kept")

-- VoxelNeXt: levels are moved to the voxels of the finest, z is dropped, and
-- equal voxels are added up. Then the plane grows by its border, and heads have
-- few channels.
local q = conv(a, "conv,cout=8,k=3,stride=2,padding=1,rule=footprint",
               {name = "q"})
local r = conv(q, "conv,cout=8,k=3,stride=2,padding=1,rule=footprint",
               {name = "r"})
local flat = regroup({q, regroup({r}, {scale = {2, 2, 2}})},
                     {scale = {1, 1, 0}})
flat = conv(flat, "conv,k=3x3x1,padding=1x1x0,rule=footprint,cout=8",
            {name = "grown"})
for width = 1, 3 do
  local head = conv(flat, "subm,k=3x3x1,cout=" .. width ..
                          ",epilogue=bias+sigmoid", {name = "head" .. width})
  output(head, "head" .. width)
end

-- UNetV2: an inverse layer over the stored map of a padded layer, and the sum
-- of two halves of channels. LargeKernel3D: a dilated kernel. Last, a kernel
-- that is not a box.
local up = conv(q, "inverse,cout=8,k=3,stride=2,padding=1,rule=footprint",
                {name = "up"})
up = feature(cat(up, a), "groupsum,by=2")
up = conv(up, "subm,cout=8,k=3,dilation=2", {name = "spread"})
output(conv(up, "subm,cout=8,offsets=0x0x0+1x0x0+-1x0x0+0x2x-1+0x0x3",
            {name = "list"}), "list")
