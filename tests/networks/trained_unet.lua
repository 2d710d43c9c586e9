-- Goes down a level and up again next to a shortcut. Some normalisations are
-- folded, and residuals are on either side of an activation. All layers are
-- smooth, so that differences approximate gradients.
network "trained unet"
local x = input {channels = 3}
local a = conv(x, "subm,cout=8,k=3,epilogue=scale+bias+silu", {name = "stem"})
local b = conv(a, "conv,cout=8,k=3,stride=2,padding=1,rule=footprint,epilogue=bias", {name = "down"})
b = feature(b, "norm=layer,eps=0.01,affine=1,act=gelu", {name = "norm"})
local c = conv(b, "subm,cout=8,k=3,epilogue=scale+bias+add+sigmoid", {name = "before", residual = b})
c = conv(c, "subm,cout=8,k=3,epilogue=bias+silu+add", {name = "after", residual = b})
local d = conv(c, "inverse,cout=8,k=3,stride=2,padding=1,rule=footprint,epilogue=bias", {name = "up"})
local e = cat(d, a)
e = feature(e, "norm=group,groups=4,eps=0.01,affine=1", {name = "group"})
e = feature(conv(e, "subm,cout=16,k=1", {name = "mix"}), "add,act=elu", {add = e})
output(conv(e, "linear,cout=2,bias=1", {name = "last"}))
