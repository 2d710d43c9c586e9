/* SPDX-License-Identifier: Apache-2.0 */
/* version.c - the version of the library, and the sizes of its structs. */
#include "base/struct_bytes.h"
#include "spc.h"
#include "spc/db.h"
#include "spc/lab.h"
#include "spc/train.h"

/* A test compares the names with the structs of the headers. */
#define ROW(type) #type, sizeof(type)
static const spc__struct structs[] = {
    {ROW(spc_background_options)},
    {ROW(spc_bandwidth)},
    {ROW(spc_bench_result)},
    {ROW(spc_buffers)},
    {ROW(spc_conv)},
    {ROW(spc_coords_options)},
    {ROW(spc_ctx_options)},
    {ROW(spc_db_change)},
    {ROW(spc_db_exchange)},
    {ROW(spc_db_fault)},
    {ROW(spc_db_pack_options)},
    {ROW(spc_db_packed)},
    {ROW(spc_db_prune_options)},
    {ROW(spc_db_row)},
    {ROW(spc_device_info)},
    {ROW(spc_error)},
    {ROW(spc_explain_question)},
    {ROW(spc_explanation)},
    {ROW(spc_feature)},
    {ROW(spc_feature_buffers)},
    {ROW(spc_gather)},
    {ROW(spc_geometry)},
    {ROW(spc_memory_hook)},
    {ROW(spc_net_buffers)},
    {ROW(spc_net_deviation)},
    {ROW(spc_net_floor)},
    {ROW(spc_net_info)},
    {ROW(spc_net_input)},
    {ROW(spc_net_layer)},
    {ROW(spc_net_like)},
    {ROW(spc_net_masked)},
    {ROW(spc_net_options)},
    {ROW(spc_net_output)},
    {ROW(spc_net_param)},
    {ROW(spc_net_row)},
    {ROW(spc_net_step)},
    {ROW(spc_net_time)},
    {ROW(spc_net_verdict)},
    {ROW(spc_operator_info)},
    {ROW(spc_plan_options)},
    {ROW(spc_point_rows)},
    {ROW(spc_points_options)},
    {ROW(spc_progress)},
    {ROW(spc_regrouping)},
    {ROW(spc_relation)},
    {ROW(spc_row_lists)},
    {ROW(spc_scales)},
    {ROW(spc_scene_info)},
    {ROW(spc_stats)},
    {ROW(spc_tensor_info)},
    {ROW(spc_training_out)},
    {ROW(spc_trial)},
    {ROW(spc_triplet)},
    {ROW(spc_tune_options)},
    {ROW(spc_tune_report)},
    {ROW(spc_voxelisation)},
    {ROW(spc_voxels_info)},
};
#undef ROW

int spc_version(void)
{
    return SPC_VERSION_NUMBER;
}

size_t spc_struct_bytes(const char *name)
{
    return spc__struct_find(structs, sizeof(structs) / sizeof(structs[0]),
                            name);
}
