-- Ends in the dense planes of a detector.
network "trained bev"
local x = input {channels = 3, shape = {8, 8, 8}}
local a = conv(x, "subm,cout=8,k=3,epilogue=scale+silu", {name = "first"})
a = conv(a, "conv,cout=8,k=3,stride=2,padding=1,rule=footprint,bias=1", {name = "second"})
output(feature(a, "bev,order=zyx"))
