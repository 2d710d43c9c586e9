-- Sets that depend on features, and what may use them: layers, additions that
-- become residuals, concatenations, levels, unions with earlier sets, and a
-- layer whose outputs depend on features while its inputs do not.
network "masked"
local x = input {channels = 8, shape = {24, 24, 16}}
local same = "subm,cout=8,k=3"
local two = ",cout=8,rule=floor,k=2,stride=2"

local a = conv(x, same .. ",epilogue=bias", {name = "a"})
local keep = conv(a, "subm,k=1,cout=1,bias=1", {name = "keep"})
local p = regroup({a}, {mask = keep, above = 0.125, room = 1})
local b = feature(conv(p, same, {name = "b"}), "add,act=relu",
                  {add = p, name = "b.add"})

local kids = conv(b, "subm,k=1,cout=8,bias=1", {name = "kids"})
local how = {scale = {2, 2, 2}, split = {2, 2, 2}, mask = kids, room = 8}
local fine = regroup({b}, how)
how.slices = true
local slices = regroup({conv(b, "subm,k=1,cout=64", {name = "wide"})}, how)
local c = conv(cat(fine, slices), same, {name = "c"})
local d = conv(c, "conv" .. two, {name = "d"})
output(conv(d, "inverse" .. two, {name = "e"}), "fine")
output(regroup({d, a}), "union")
output(conv(a, "transposed,cout=8,k=3,stride=1", {name = "t", at = b}), "at")
-- No output needs this set.
regroup({c}, {mask = conv(c, "subm,k=1,cout=1", {name = "idle"})})
