%template = {
%  summary = "the sum of a row, unrolled",
%  role = "conv",
%  device = "cpu",
%  params = {{"unroll", {1, 2, 4}, "columns at a time"}},
%  accepts = function(problem) return problem.cin % 4 == 0, "cin in fours" end,
%  launch = function() return {tile_rows = 1} end,
%  default = function() return {unroll = 2} end,
%}
float spc_conv(const float *in)
{
    float sum = 0.0f;
    for (int i = 0; i < $(problem.cin); i += $(config.unroll)) {
% for i = 0, config.unroll - 1 do
        sum += in[i + $(i)];
% end
% if problem.mistake then
        sum += missing;
% end
    }
    return sum;
}
