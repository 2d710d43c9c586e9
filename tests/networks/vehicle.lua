network "small"
local x = input {channels = 4, shape = {64, 64, 8}, voxel = {0.5, 0.5, 0.5},
                 low = {-16, -16, -2}, high = {16, 16, 2}}
x = conv(x, "subm,cout=16,k=3,epilogue=scale+bias+relu", {name = "first"})
x = conv(x, "conv,cout=32,k=3,stride=2,padding=1,rule=footprint,epilogue=bias+relu",
         {name = "down"})
output(feature(x, "bev,order=zyx"), "bev")
