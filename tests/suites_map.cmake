# Kernel maps: on cpu and sim, and again on a GPU where there is one.
spc_suite(map)
add_test(NAME map_gpu COMMAND test_map cuda)
set_tests_properties(map_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77)

add_executable(bench_map bench_map.c)
target_link_libraries(bench_map PRIVATE spc_internal)
