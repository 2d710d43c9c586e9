# Networks: on cpu and sim, on recorded scans, on the double of the driver, and
# on a GPU.
spc_suite(net)
spc_run_suite(net_scenes net scenes)
spc_slow(net_scenes)
spc_gpu_suite(net)
target_compile_definitions(test_net PRIVATE
  SPC_TEST_NVRTC="$<TARGET_FILE:fake_nvrtc>")
target_link_options(test_net PRIVATE
  -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
add_dependencies(test_net fake_cuda fake_nvrtc)
set_property(TEST net APPEND PROPERTY
  ENVIRONMENT_MODIFICATION LD_LIBRARY_PATH=path_list_prepend:${fake_cuda_dir})
# Networks that learn.
spc_suite(train)
spc_gpu_suite(train)
