-- A chain that goes down a level and up again. It is smooth, so that
-- differences approximate gradients.
network "trained"
local x = input {channels = 3}
x = conv(x, "subm,cout=8,k=3,epilogue=bias+silu", {name = "one"})
x = conv(x, "conv,cout=8,k=3,stride=2,padding=1,rule=footprint,bias=1", {name = "down"})
x = feature(x, "act=gelu")
x = conv(x, "inverse,cout=8,k=3,stride=2,padding=1,rule=footprint,epilogue=bias+sigmoid", {name = "up"})
x = conv(x, "linear,cout=2", {name = "last"})
output(x)
