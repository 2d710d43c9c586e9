-- A network whose input is points: a grid, a level down, a plane.
network "points"
local x = input {channels = 4, shape = {23, 16, 9}, voxel = {0.5, 0.5, 0.25},
                 low = {-6, -4, -1}, high = {6, 4, 1}, points = 3}
x = conv(x, "subm,cout=8,k=3,epilogue=bias+relu", {name = "a"})
output(x, "rows")
x = conv(x, "conv,cout=8,k=3,stride=2,padding=1,rule=footprint", {name = "b"})
output(feature(x, "bev,order=zyx"), "bev")
