%-- The two means that the gradient of group normalisation needs, of g and of g xhat. They
%-- are summed over parts and then over all parts of a batch element, like the moments in
%-- feature_batch.cu.lua.
%
%-- g = dy times the scale, for n channels from `at` on.
%local function write_g(problem, n)
SPC_DEVICE void load_g$(n)(float *g, const spc_feature_args *args, long long row,
                           int at)
{
    load$(n)(g, args->add, row * args->add_pitch + at);
%   if problem.affine == 1 then
    float scale[$(n)];

    load_floats$(n)(scale, args->scale + at);
    SPC_UNROLL
    for (int e = 0; e < $(n); e++)
        g[e] *= scale[e];
%   end
}

%end
%-- The sums of g and of g xhat of one part.
%local function write_part_back(name, n, write_part_kernel)
/* Each warp has one group. */
SPC_DEVICE void part_back$(n)(const spc_feature_args *args, float *to, int begin,
                              int end, int group)
{
    int items = (end - begin) * (GROUP / $(n));
    int batch = coordinate_of(args, begin, 0);
    const float *of = args->moments + 2 * ((long long)batch * GROUPS + group);
    float all = 0, along = 0;

    for (int i = spc_lane(); i < items; i += 32) {
        long long row = args->order[begin + i / (GROUP / $(n))];
        int at = group * GROUP + i % (GROUP / $(n)) * $(n);
        float x[$(n)], g[$(n)];

        load$(n)(x, args->in, row * args->in_pitch + at);
        load_g$(n)(g, args, row, at);
        SPC_UNROLL
        for (int e = 0; e < $(n); e++) {
            all += g[e];
            along += g[e] * ((x[e] - of[0]) * of[1]);
        }
    }
    all = sum_warp(all);
    along = sum_warp(along);
    if (spc_lane() == 0) {
        to[2 * group] = all;
        to[2 * group + 1] = along;
    }
}

% write_part_kernel(name, "int group = spc_warp(); group < GROUPS; group += WARPS",
%   "part_back" .. n, "GROUPS * 2", "group")
%end
%function write_group_back(problem, wide, wide_group, write_part_kernel)
%local sizes = {}
%for _, n in ipairs {1, wide, wide_group} do
%  if not sizes[n] then write_g(problem, n) end
%  sizes[n] = true
%end
%   write_part_back("spc_part_back", wide_group, write_part_kernel)
%   if needs_single(problem, problem.channels, problem.channels) then
%     if wide_group == 1 then
SPC_KERNEL(spc_part_back_1, spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    spc_part_back_body(args);
}

%     else
%       write_part_back("spc_part_back_1", 1, write_part_kernel)
%     end
%   end
/* Their means, stored after the moments. */
SPC_KERNEL(spc_join_back, spc_feature_args, SPC_FEATURE_THREADS, 1)
{
    int items = args->batches * GROUPS;
    float *means = args->moments + 2 * (long long)items;

    for (int i = spc_block_x() * WARPS + spc_warp(); i < items;
         i += spc_grid_x() * WARPS) {
        int batch = i / GROUPS, group = i % GROUPS;
        element e = find_element(args, batch);
        const float *parts =
            args->parts + (long long)batch * SPC_FEATURE_PARTS * GROUPS * 2;
        float n = (float)(e.end - e.begin) * (float)GROUP, all = 0, along = 0;

        for (int j = spc_lane(); j < parts_of(&e); j += 32) {
            all += parts[(j * GROUPS + group) * 2];
            along += parts[(j * GROUPS + group) * 2 + 1];
        }
        all = sum_warp(all);
        along = sum_warp(along);
        /* An element without voxels has no means, and nothing reads them. */
        if (spc_lane() == 0 && n > 0) {
            means[2 * i] = all / n;
            means[2 * i + 1] = along / n;
        }
    }
}
%end
