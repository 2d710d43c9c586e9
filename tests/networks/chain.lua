-- Goes down a level and up again. The sum at the end reads a slice.
network "chain"
local x = input {channels = 8}
local same = "subm,cout=8,k=3,epilogue=scale+bias+relu"
local two = ",cout=8,rule=floor,k=2,stride=2"

local a = conv(x, same, {name = "a"})
local b = conv(a, "conv" .. two, {name = "b"})
b = conv(b, same, {name = "c"})
local e = conv(b, "inverse" .. two, {name = "e"})
output(conv(cat(e, a), "subm,cout=8,k=3,epilogue=add",
            {name = "f", residual = a}), "out")
