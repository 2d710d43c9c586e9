-- Sums whose outputs have a wider type.
network "wider"
local x = input {channels = 3, dtype = "f16"}
output(conv(x, "subm,cout=2,k=3,out=f32", {name = "wider"}))
