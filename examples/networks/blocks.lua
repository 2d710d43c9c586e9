-- SPDX-License-Identifier: Apache-2.0
-- Shared by the networks of this folder.
local blocks = {}

-- Joins two names of a path of modules.
local function sub(name, part)
  return name and name .. "." .. part
end

-- A convolution with folded batch normalisation and a ReLU. `name` and `norm`
-- name both in files of weights; `more` has the layer's other parameters.
function blocks.relu(x, words, name, norm, more)
  local options = {name = name, norm = norm}
  for key, value in pairs(more or {}) do options[key] = value end
  return conv(x, words .. ",epilogue=scale+bias+relu", options)
end

-- Two convolutions of size 3, with the input added before the last ReLU; if
-- the channels change, the input passes a convolution of size 1.
-- `parts` names the modules in it.
function blocks.residual(x, cout, name, parts, eps)
  parts = parts or {"conv1", "bn1", "conv2", "bn2", "downsample.0",
                    "downsample.1"}
  cout = name and width(sub(name, parts[1]), cout) or cout
  local words = "subm,k=3,cout=" .. cout
  local y = blocks.relu(x, words, sub(name, parts[1]), sub(name, parts[2]),
                        {eps = eps})
  local short = x
  if channels(x) ~= cout then
    short = conv(x, "subm,k=1,cout=" .. cout .. ",epilogue=scale+bias",
                  {name = sub(name, parts[5]), norm = sub(name, parts[6]),
                   eps = eps})
  end
  return conv(y, words .. ",epilogue=scale+bias+add+relu",
               {name = sub(name, parts[3]), norm = sub(name, parts[4]),
                residual = short, eps = eps})
end

-- `count` of them, numbered from `first` (0), which may change the channels.
function blocks.stage(x, cout, count, name, parts, eps, first)
  first = first or 0
  if name then
    count = _ENV.count(sub(name, "#." .. (parts and parts[1] or "conv1")),
                       first, count)
  end
  for i = first, first + count - 1 do
    x = blocks.residual(x, cout, sub(name, i), parts, eps)
  end
  return x
end

return blocks
