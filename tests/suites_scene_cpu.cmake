# SPDX-License-Identifier: Apache-2.0
spc_suite(scene)
# Runs some suites again on recorded scans, which are not part of the sources.
spc_run_suite(scene_scenes scene scenes)
# Every format of point files, also cut and changed.
spc_suite(point_files)
spc_suite(oracle)
spc_suite(relation)
# The test fails each allocation once.
spc_watch_allocations(test_relation)
spc_suite(golden_counts)
spc_run_suite(golden_counts_scenes golden_counts scenes)
spc_suite(sample)
spc_suite(judge)
spc_suite(cpu)

# Measures figures for docs/performance.md. It is built, but not run. The naive
# loop is compiled with -O2.
add_executable(bench_cpu bench/bench_cpu.c)
target_link_libraries(bench_cpu PRIVATE spc_internal)
target_compile_options(bench_cpu PRIVATE -O2)
