-- One head over two levels: layers with the same name share their weights.
network "shared"
local x = input {channels = 8}
local a = conv(x, "subm,cout=8,k=3,epilogue=relu", {name = "a"})
local b = conv(a, "conv,cout=8,rule=floor,k=2,stride=2", {name = "b"})

local function head(y, name)
    y = conv(y, "subm,cout=8,k=3,epilogue=scale+bias+relu",
             {name = "head.0", norm = "head.bn"})
    y = feature(y, "affine", {name = "head.1"})
    output(conv(y, "subm,cout=3,k=1,epilogue=bias", {name = "head.2"}), name)
end
head(a, "fine")
head(b, "coarse")
