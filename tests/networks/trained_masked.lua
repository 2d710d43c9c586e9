-- A set that features choose.
network "masked"
local x = input {channels = 3}
local keep = conv(x, "subm,k=1,cout=1,bias=1", {name = "keep"})
local late = regroup({x}, {mask = keep, above = 0.125, room = 1})
output(conv(late, "subm,cout=2,k=3", {name = "late"}))
