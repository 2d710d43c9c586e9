-- Features select voxels. Pruned voxels and the mask have no gradient.
network "trained masked"
local x = input {channels = 3}
local two = ",cout=8,k=2,stride=2,rule=floor,bias=1"
local keep = conv(x, "subm,k=1,cout=1,bias=1", {name = "keep"})
local a = conv(x, "subm,cout=8,k=3,epilogue=bias+silu", {name = "first"})
local p = regroup({a}, {mask = keep, above = 0, room = 1})
local b = conv(p, "subm,cout=8,k=3,bias=1", {name = "late"})
local c = conv(feature(b, "act=silu"), "conv" .. two, {name = "down"})
local d = conv(c, "inverse" .. two, {name = "up"})
output(conv(cat(d, p), "conv,cout=2,k=3,rule=given,bias=1", {name = "back", at = x}))
