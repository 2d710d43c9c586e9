%-- A template of one kernel for all problems.
%function without_parameters(summary)
%  return {
%    summary = summary,
%    role = "map",
%    device = "cuda",
%    accepts = function() return true end,
%    params = {},
%    default = function() return {} end,
%    launch = function() return {block = 32} end,
%  }
%end
