# SPDX-License-Identifier: Apache-2.0
# Networks: on cpu and sim, on recorded scans, on the double of the driver, and
# on a GPU.
spc_suite(net)
spc_suite(cropped)
spc_run_suite(net_scenes net scenes)
spc_slow(net_scenes)
spc_gpu_suite(net)
spc_suite(voxelise)
spc_gpu_suite(voxelise)
spc_suite(net_masked)
spc_slow(net_masked)
spc_gpu_suite(net_masked)
spc_suite(net_points)
spc_suite(net_clouds)
spc_gpu_suite(net_points)
spc_gpu_suite(net_clouds)
spc_suite(net_together)
spc_gpu_suite(net_together)
spc_suite(net_replays)
spc_gpu_suite(net_replays)
spc_suite(net_files)
spc_gpu_suite(net_files)
spc_suite(net_misuse)
spc_gpu_suite(net_misuse)
spc_suite(net_int8)
spc_slow(net_int8)
spc_gpu_suite(net_int8)
foreach(name net net_masked net_points net_clouds net_together net_replays
    net_files net_int8 net_misuse)
  target_compile_definitions(test_${name} PRIVATE
    SPC_TEST_NVRTC="$<TARGET_FILE:fake_nvrtc>")
  spc_watch_allocations(test_${name})
  add_dependencies(test_${name} fake_cuda fake_nvrtc)
  set_property(TEST ${name} APPEND PROPERTY
    ENVIRONMENT_MODIFICATION LD_LIBRARY_PATH=path_list_prepend:${fake_cuda_dir})
endforeach()

# Networks in the database.
spc_suite(net_store)
spc_watch_allocations(test_net_store)

# Recording layers and scenes of a host application for tuning.
spc_suite(capture)
# Training of networks.
spc_suite(train)
spc_suite(drawn_nets)
spc_gpu_suite(drawn_nets)
spc_gpu_suite(train)
