-- Two outputs, of which one reads the other. Some rows exist in only one of
-- them.
network "trained heads"
local x = input {channels = 3}
local a = conv(x, "subm,cout=8,k=3,epilogue=bias+silu", {name = "first"})
local b = conv(a, "subm,cout=2,k=3,bias=1", {name = "near"})
output(b, "near")
output(conv(cat(a, b), "conv,cout=3,k=2,stride=2,rule=floor", {name = "far"}), "far")
