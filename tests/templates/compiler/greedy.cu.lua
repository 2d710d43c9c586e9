%template = {
%  summary = "asks the device for more and more",
%  role = "greedy",
%  device = "cuda",
%  params = {{"kib", {16, 64, 256}}, {"threads", {256, 2048}}},
%  accepts = function() return true end,
%  launch = function(problem, config)
%    return {block = config.threads, shared = config.kib * 1024}
%  end,
%  default = function(problem)
%    return {kib = problem.kib or 16, threads = 256}
%  end,
%}
int nothing;
