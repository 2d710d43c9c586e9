-- Layers of points at their own positions: sampled points, the nearest points
-- of each, a block with a residual, a layer back to all points, and linear
-- layers.
network "trained_cloud"
local x = input {channels = 3, cloud = true}
x = conv(x, "points,k=3,radius=0.0025,cout=8,epilogue=bias+silu", {name = "stem"})
local down = conv(x, "points,k=2,radius=0.0025,voxel=0.002,cout=8,bias=1", {name = "down"})
local kept = conv(x, "points,k=1,radius=0.0025,voxel=0.002,nearest=1,cout=8", {name = "kept"})
local y = feature(down, "add,act=gelu", {add = kept})
y = conv(y, "points,k=3,radius=0.005,cout=8,epilogue=scale+bias+add+silu",
         {name = "block", norm = "block.bn", residual = y})
y = conv(y, "inverse,k=2,rule=radius,radius=0.0025,voxel=0.002,cout=4,epilogue=bias+sigmoid",
         {name = "back"})
local near = conv(x, "points,k=2,radius=0.0025,nearest=5,cout=4", {name = "near"})
-- Back to the points that are among the nearest of another.
local spread = conv(kept, "inverse,k=1,rule=radius,radius=0.0025,voxel=0.002,nearest=1,cout=4", {name = "spread"})
output(conv(cat(y, near, spread), "linear,cout=2", {name = "head"}))
