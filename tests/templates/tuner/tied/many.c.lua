%-- Has more to vary: what an untuned plan takes of the two.
%
%template = {
%  summary = "plain loops",
%  role = "conv",
%  device = "cpu",
%  params = {
%    {"tile", {64, 128}, "output rows of a tile"},
%    {"step", {1}, "nothing"},
%  },
%  accepts = function(problem, target)
%    if problem.dtype ~= "f32" then return false, "f32 only" end
%    return true
%  end,
%  derive = function(problem, config, target) return {} end,
%  launch = function(problem, config, target)
%    return {
%      block = 1, shared = 0, grid = "tiles", tile_rows = config.tile,
%      order = "none", pack_threads = problem.offsets * problem.cin,
%      packed_bytes = problem.offsets * problem.cin * problem.cout * 4,
%    }
%  end,
%  default = function(problem, target) return {tile = 64, step = 1} end,
%}
enum {
    CIN = $(problem.cin),
    COUT = $(problem.cout),
    OFFSETS = $(problem.offsets),
    TILE = $(config.tile)
};

#include "loops.h"
