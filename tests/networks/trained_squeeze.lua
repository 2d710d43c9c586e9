-- Squeeze-and-excitation. Several layers read the factors.
network "trained squeeze"
local x = input {channels = 3}
local a = conv(x, "subm,cout=8,k=3,epilogue=bias+silu", {name = "first"})
local mean = feature(a, "global=mean")
local less = conv(mean, "linear,cout=4,epilogue=bias+silu", {name = "less"})
local more = conv(less, "linear,cout=8,epilogue=bias+sigmoid", {name = "more"})
local b = conv(feature(a, "multiply", {by = more}), "subm,cout=8,k=3,epilogue=bias",
               {name = "second"})
local c = feature(feature(b, "multiply", {by = more}), "add", {add = a})
output(feature(c, "multiply", {by = mean}))
