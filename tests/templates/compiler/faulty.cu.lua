%template = {
%  summary = "fails where problem.fault says",
%  role = "faulty",
%  device = "cuda",
%  params = {{"rows", {1, 2}}},
%  accepts = function(problem)
%    if problem.fault == "accepts" then return problem.nothing.here end
%    return true
%  end,
%  constraints = {
%    {"it works", function(problem)
%      if problem.fault == "constraint" then while true do end end
%      return true
%    end},
%  },
%  launch = function(problem)
%    if problem.fault == "launch" then return {block = 1.5} end
%    return {block = 32}
%  end,
%  default = function(problem)
%    if problem.fault == "illegal" then return {rows = 3} end
%    if problem.fault == "missing" then return {} end
%    return {rows = 1}
%  end,
%}

% if problem.fault == "body" then while true do end end
% if problem.fault == "typo" then
int typo = $(config.rowz);
% end
int rows = $(config.rows);
