%template = {
%  summary = "every primitive once",
%  role = "map",
%  device = "cuda",
%  accepts = function() return true end,
%  params = {},
%  default = function() return {} end,
%  launch = function() return {block = 32} end,
%}
#include "primitives.cuh"
