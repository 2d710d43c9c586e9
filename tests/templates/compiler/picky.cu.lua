%template = {
%  summary = "takes every problem and refuses every configuration",
%  role = "picky",
%  device = "cuda",
%  params = {{"rows", {1, 2, 3, 4, 6}}, {"depth", {1, 2}}},
%  accepts = function() return true end,
%  constraints = {
%    {"rows are odd", function(p, config) return config.rows % 2 == 1 end},
%    {"nothing pleases", function() return false end},
%    {"never asked", function() return false end},
%  },
%  launch = function() return {block = 32} end,
%  default = function() return {rows = 1, depth = 1} end,
%}
int nothing;
