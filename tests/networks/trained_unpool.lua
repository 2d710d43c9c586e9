-- Unpooling puts maxima back where they came from. Maxima are taken of the
-- input's features, which no parameter changes, so the loss has no kinks.
network "trained unpool"
local x = input {channels = 3}
local p = feature(x, "pool=max,rule=floor,k=2,stride=2,index=1", {name = "most"})
local b = conv(p, "subm,cout=3,k=3,epilogue=bias+silu", {name = "coarse"})
local u = feature(b, "unpool=index,rule=floor,k=2,stride=2", {name = "back", index = p})
u = conv(u, "subm,cout=6,k=3,epilogue=bias+silu", {name = "fine"})
output(conv(cat(u, conv(x, "linear,cout=6", {name = "skip"})), "linear,cout=4,bias=1", {name = "last"}))
