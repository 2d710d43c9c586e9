# SPDX-License-Identifier: Apache-2.0
# Kernel maps: on cpu and sim, and again on a GPU where there is one.
spc_suite(points)
spc_gpu_suite(points)
spc_suite(map)
spc_suite(orders)
spc_run_suite(orders_nvrtc orders nvrtc)
spc_slow(orders_nvrtc)
spc_gpu_suite(orders)
spc_gpu_suite(map)

add_executable(bench_map bench/bench_map.c)
target_link_libraries(bench_map PRIVATE spc_internal)
add_executable(bench_levels bench/bench_levels.c)
target_link_libraries(bench_levels PRIVATE spc_internal)
add_executable(bench_points bench/bench_points.c)
target_link_libraries(bench_points PRIVATE spc_internal)

# Coordinate sets, maps of every kind, and the frame loop.
spc_suite(coords)
spc_gpu_suite(coords)

# Updates on the cpu device allocate no memory and start no threads.
spc_suite(updates)
spc_watch_allocations(test_updates)

# Given sets, and sets that generative layers make.
spc_suite(given)
spc_gpu_suite(given)

# Sets made from other sets.
spc_suite(capacity)
spc_gpu_suite(capacity)
spc_suite(regroup)
spc_watch_allocations(test_regroup)
spc_run_suite(regroup_nvrtc regroup nvrtc)
spc_gpu_suite(regroup)

# Search configurations, and layouts other than tables by rows.
spc_suite(search)
spc_slow(search)
spc_run_suite(search_nvrtc search nvrtc)
spc_gpu_suite(search)

# Dataflows on pairs by offset.
spc_suite(pairs)
spc_run_suite(pairs_nvrtc pairs nvrtc)
spc_gpu_suite(pairs)
