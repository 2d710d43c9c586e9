-- One tensor has two names.
network "twice"
local x = input {channels = 3}
local y = conv(x, "subm,cout=2,k=3", {name = "only"})
output(y, "here")
output(y, "there")
