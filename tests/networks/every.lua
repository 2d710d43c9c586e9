-- A network with every kind of node, small enough for the emulation. Layers
-- have the same width where possible.
network "every"
local x = input {channels = 8, shape = {24, 24, 16}, voxel = {0.5, 0.5, 0.5},
                 low = {-6, -6, -4}, high = {6, 6, 4}}
local same = "subm,cout=8,k=3"
local down = ",cout=8,rule=footprint,k=3,stride=2,padding=1"

local a = conv(x, same .. ",epilogue=scale+bias+relu", {name = "a", key = "s0"})
-- One addition becomes a residual, the other cannot.
local b = conv(a, same, {name = "b", key = "s0"})
b = feature(b, "add,act=relu", {add = a, name = "b.add"})
b = feature(b, "add", {add = feature(b, "act=leaky,slope=0.25"),
                       name = "b.other"})

local c = conv(b, "conv" .. down, {name = "c", key = "d1"})
local d = conv(c, same .. ",epilogue=bias", {name = "d"})
local e = conv(d, "inverse" .. down, {name = "e", key = "d1"})
-- The first concatenation is made in place. The second one cannot be: the first
-- contains e, and three channels end at an unaligned address.
local f = cat(e, b)
local thin = conv(a, "subm,cout=3,k=1", {name = "thin"})
local g = cat(thin, e)
output(feature(f, "groupsum,by=2"), "sums")
output(feature(g, "norm=layer", {name = "g.norm"}), "normed")

local pooled = feature(b, "pool=max,rule=floor,k=2,stride=2")
output(feature(pooled, "unpool=nearest,rule=floor,k=2,stride=2"), "unpooled")
-- Levels of two rules are united and z is dropped. Children get slices of
-- channels.
local flat = regroup({pooled, d}, {scale = {1, 1, 0}})
output(conv(flat, "subm,cout=8,k=3x3x1", {name = "flat"}), "flat")
local fine = regroup({d}, {scale = {2, 2, 2}, split = {2, 2, 1},
                           slices = true})
output(fine, "fine")
output(conv(d, "transposed,cout=8,k=2,stride=2", {name = "t", at = x}),
       "transposed")
output(feature(d, "global=mean"), "mean")
output(feature(c, "bev,order=zyx"), "bev")
-- Turns space into channels, and back.
local sliced = feature(thin, "pool=slices,rule=floor,k=2,stride=2", {name = "sliced"})
output(feature(sliced, "unpool=slices,rule=floor,k=2,stride=2"), "unsliced")
-- Unpooling puts maxima back where they were.
local most = feature(a, "pool=max,rule=footprint,k=3,stride=2,padding=1,index=1",
                     {name = "most"})
local met = feature(conv(most, same, {name = "met"}),
                    "unpool=index,rule=footprint,k=3,stride=2,padding=1",
                    {name = "back", index = most})
output(feature(met, "add", {add = b}), "met")
