network "block"
local x = input {channels = 4, dtype = "f32"}
local function block(x, c)
  return conv(x, "subm,cout=" .. c .. ",k=3")
end
x = block(x, 16)
local d = conv(x, "conv,cout=32,k=2,stride=2,rule=floor")
for i = 1, 2 do d = block(d, 32) end
output(conv(d, "inverse,cout=8,k=2,stride=2,rule=floor"), "out")
