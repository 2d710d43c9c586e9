# The cache's suite fails each allocation once; these let it reach ours.
target_compile_definitions(test_cache PRIVATE SPC_TEST_WRAP_MALLOC)
target_link_options(test_cache PRIVATE
  -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup)

# Figures of a large database; it is no test.
add_executable(bench_cache bench_cache.c)
target_link_libraries(bench_cache PRIVATE spc_internal spc_check)
