-- Ends in the mean of all voxels.
network "trained global"
local x = input {channels = 3}
local a = conv(x, "subm,cout=8,k=3,epilogue=bias+silu", {name = "first"})
output(feature(feature(a, "norm=group,groups=4,eps=0.01"), "global=mean"))
