-- Squeeze-and-excitation, and layers on rows of batch elements.
network "batches"
local x = input {channels = 8}
local a = conv(x, "subm,cout=16,k=3,epilogue=scale+bias", {name = "a"})

-- The whole block: the mean of all voxels, two linear layers, and a factor
-- between 0 and 1 for each channel.
local mean = feature(a, "global=mean", {name = "mean"})
local less = conv(mean, "linear,cout=4,epilogue=bias+relu", {name = "less"})
local more = conv(less, "linear,cout=16,epilogue=bias+sigmoid", {name = "more"})
local y = feature(a, "multiply", {name = "y", by = more})
output(y, "y")

-- Other layers on rows of batch elements.
local most = feature(a, "global=max", {name = "most"})
local both = feature(most, "add,act=silu", {name = "both", add = mean})
local norm = feature(both, "norm=layer,eps=0.01,affine=1", {name = "norm"})
output(conv(norm, "linear,cout=16,epilogue=bias+add",
            {name = "class", residual = norm}), "class")

-- Factors on a coarser set, without a layer between.
local down = conv(y, "conv,cout=16,k=2,stride=2,rule=floor", {name = "down"})
output(feature(down, "multiply", {name = "z", by = mean}), "z")
output(mean, "mean")
