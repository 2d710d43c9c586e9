-- Every kind of layer on clouds: sampled, at given points, inverse, linear,
-- concatenated, and operators on features of single rows.
network "cloud"
local x = input {channels = 4, cloud = true}

x = conv(x, "points,k=3,radius=0.25,cout=16,epilogue=scale+bias+relu", {name = "stem"})
local down = conv(x, "points,k=2,radius=0.25,voxel=0.2,cout=32,epilogue=bias",
                  {name = "down"})
local kept = conv(x, "points,k=1,radius=0.25,voxel=0.2,nearest=1,cout=32",
                  {name = "kept"})
local y = feature(down, "add,act=relu", {add = kept})
y = conv(y, "points,k=3,radius=0.5,cout=32,epilogue=bias+add+relu",
         {name = "block", residual = y})
local back = conv(y, "inverse,k=2,rule=radius,radius=0.25,voxel=0.2,cout=16",
                  {name = "back"})
local near = conv(y, "points,k=1,radius=0.5,nearest=1,cout=16",
                  {name = "near", at = x})
x = conv(cat(back, near), "subm,k=1,cout=8,epilogue=bias", {name = "head"})
output(x, "out")
output(y, "deep")
