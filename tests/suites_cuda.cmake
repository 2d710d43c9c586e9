# SPDX-License-Identifier: Apache-2.0
# The host code of the cuda device, on a double of the driver: a libcuda.so.1 in
# a folder of its own, which the loader is told to look into first.
spc_suite(cuda_host)
target_compile_definitions(test_cuda_host PRIVATE
  SPC_TEST_NVRTC="$<TARGET_FILE:fake_nvrtc>")
# The test counts allocations in the execute path, and removes symbols from the
# driver.
spc_watch_allocations(test_cuda_host)
target_link_options(test_cuda_host PRIVATE -Wl,--wrap=dlopen,--wrap=dlsym)

# Tests which other GPU's choices serve a GPU.
spc_suite(related)
target_compile_definitions(test_related PRIVATE
  SPC_TEST_NVRTC="$<TARGET_FILE:fake_nvrtc>")

# The frame loop. The test also counts its driver calls.
spc_suite(frames)
spc_gpu_suite(frames)
target_compile_definitions(test_frames PRIVATE
  SPC_TEST_NVRTC="$<TARGET_FILE:fake_nvrtc>")
spc_watch_allocations(test_frames)

# Matrix products by cuBLASLt, on its double.
spc_suite(cublas)
target_compile_definitions(test_cublas PRIVATE
  SPC_TEST_NVRTC="$<TARGET_FILE:fake_nvrtc>"
  SPC_TEST_CUBLASLT="$<TARGET_FILE:fake_cublaslt>")

add_library(fake_cuda SHARED harness/fake_cuda.c)
target_link_libraries(fake_cuda PRIVATE spc_public)
set(fake_cuda_dir ${CMAKE_CURRENT_BINARY_DIR}/fake_cuda)
set_target_properties(fake_cuda PROPERTIES
  OUTPUT_NAME cuda VERSION 1 SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${fake_cuda_dir})
add_library(fake_nvrtc MODULE harness/fake_nvrtc.c)
add_library(fake_cublaslt MODULE harness/fake_cublaslt.c)
foreach(double fake_cuda fake_nvrtc fake_cublaslt)
  target_link_libraries(${double} PRIVATE spc_flags)
  add_dependencies(test_cuda_host ${double})
  add_dependencies(test_frames ${double})
  add_dependencies(test_related ${double})
  add_dependencies(test_cublas ${double})
endforeach()
target_link_libraries(fake_cuda PRIVATE Threads::Threads)
# LeakSanitizer of GCC 12 crashes, because it takes the bytes before some blocks
# of thread-local memory for a header. The static block is not affected.
target_compile_options(fake_cuda PRIVATE -ftls-model=initial-exec)
# The machine's own CUDA libraries do not work with the double.
set_property(TEST cuda_host frames related APPEND PROPERTY
  ENVIRONMENT "SPC_CUBLASLT=/nonexistent")
set_property(TEST cublas cuda_host frames related APPEND PROPERTY
  ENVIRONMENT_MODIFICATION LD_LIBRARY_PATH=path_list_prepend:${fake_cuda_dir})

# Kernels for a GPU that is not here: built by one double, served by the other.
add_test(NAME net_build COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/net_build.sh
  ${PROJECT_SOURCE_DIR} $<TARGET_FILE:spctune> $<TARGET_FILE:deployed>
  ${fake_cuda_dir} $<TARGET_FILE:fake_nvrtc>)

# Measures the host time of a launch, for docs/performance.md. It is built, but
# not run.
add_executable(bench_execute bench/bench_execute.c)
target_link_libraries(bench_execute PRIVATE spc_internal)
target_compile_definitions(bench_execute PRIVATE
  SPC_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}"
  SPC_TEST_CUDA="$<TARGET_FILE:fake_cuda>"
  SPC_TEST_NVRTC="$<TARGET_FILE:fake_nvrtc>")
add_dependencies(bench_execute fake_cuda fake_nvrtc)
