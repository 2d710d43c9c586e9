-- The operators between convolutions and their gradients. All are linear or
-- smooth.
network "trained ops"
local x = input {channels = 3}
local a = conv(x, "subm,cout=8,k=3,epilogue=bias+silu", {name = "first"})
local p = feature(a, "pool=mean,rule=footprint,k=3,stride=2,padding=1")
local s = feature(a, "pool=sum,rule=floor,k=2,stride=2")
-- Turns space into channels, and back.
local q = feature(conv(feature(a, "pool=slices,rule=floor,k=2x2x1,stride=2x2x1"), "linear,cout=16,bias=1", {name = "coarse"}),
                  "unpool=slices,rule=floor,k=2x2x1,stride=2x2x1")
-- A union. Its children get slices of its channels, or all of them.
local u = feature(regroup({p, s}), "affine,act=gelu", {name = "affine"})
local slices = regroup({u}, {scale = {2, 2, 2}, split = {2, 2, 2}, slices = true})
local whole = regroup({feature(u, "groupsum,by=4")}, {scale = {2, 2, 2}, split = {2, 2, 2}})
local fine = cat(slices, whole)
fine = conv(fine, "conv,cout=4,k=3,rule=given,bias=1", {name = "given", at = a})
-- Unpools by the nearest, in overlapping and in separate windows.
local n = feature(p, "unpool=nearest,rule=footprint,k=3,stride=2,padding=1")
local m = feature(s, "unpool=nearest,rule=floor,k=2,stride=2")
n = feature(feature(n, "groupmean,by=4"), "repeat,by=2")
local t = conv(u, "transposed,cout=8,k=2,stride=2", {name = "transposed", at = a})
t = feature(feature(t, "add", {add = m}), "add", {add = a})
local y = conv(cat(n, t, fine, q), "linear,cout=4,bias=1", {name = "wide"})
output(feature(y, "act=silu"))
