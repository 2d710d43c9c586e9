# The cache's suite fails each allocation once; these let it reach ours.
target_compile_definitions(test_cache PRIVATE SPC_TEST_WRAP_MALLOC)
target_link_options(test_cache PRIVATE
  -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup)
