# SPDX-License-Identifier: Apache-2.0
# The base's suite sets its clock back.
target_link_options(test_base PRIVATE -Wl,--wrap=clock_gettime)

# The suite of the cache fails each allocation once. These wrap the allocations
# of libspc.
target_compile_definitions(test_cache PRIVATE SPC_TEST_WRAP_MALLOC)
target_link_options(test_cache PRIVATE
  -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup)

spc_suite(near_lookup)
spc_suite(edited)

# Prints figures of a large database. Not a test.
add_executable(bench_cache bench/bench_cache.c)
target_link_libraries(bench_cache PRIVATE spc_internal spc_check)

spc_suite(out_file)
target_sources(test_out_file PRIVATE ../tuner/command/cli/out_file.c)

spc_suite(table)
target_sources(test_table PRIVATE ../tuner/command/cli/table.c
  ../tuner/command/cli/terminal.c)
