# SPDX-License-Identifier: Apache-2.0
# The runtime: floors, contexts, lookup, plans; and the public header.
spc_suite(floor)
spc_run_suite(floor_nvrtc floor nvrtc)
spc_gpu_suite(floor)
spc_suite(header)
target_compile_definitions(test_header PRIVATE
  SPC_TEST_PROJECT_VERSION="${PROJECT_VERSION}")
spc_suite(lookup)
spc_suite(shipped)
# Lists of the templates that layers may use.
spc_suite(allow)
spc_suite(runtime)
# Data that plans keep about maps. The test counts allocations of the execute
# path.
spc_suite(binding)
spc_watch_allocations(test_binding)
spc_threaded(binding)
# Every public function with wrong arguments.
spc_suite(arguments)
# Calls out of order, and which object gets the error message.
spc_suite(order)
# Handles: memory from the caller, their owner, and whether they fit.
spc_suite(handles)
spc_gpu_suite(runtime)
# The test counts allocations of the execute path.
spc_watch_allocations(test_runtime)

# Each header alone, without a warning, as C11 and as C++17.
file(GLOB SPC_PUBLIC_HEADERS CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/include/spc.h ${PROJECT_SOURCE_DIR}/include/spc/*.h)
add_test(NAME header_c11 COMMAND ${CMAKE_C_COMPILER} -std=c11 -Wall -Wextra
  -Wpedantic -Werror -fsyntax-only -x c
  ${SPC_PUBLIC_HEADERS})
find_program(SPC_CXX NAMES c++ g++ clang++)
if(SPC_CXX)
  add_test(NAME header_cxx17 COMMAND ${SPC_CXX} -std=c++17 -Wall -Wextra
    -Wpedantic -Werror -fsyntax-only -x c++
    ${SPC_PUBLIC_HEADERS})
else()
  message(STATUS "No C++ compiler: the headers are not tested as C++17")
endif()

# Operators on features. The test counts allocations of the execute path.
spc_suite(features)
spc_run_suite(features_nvrtc features nvrtc)
spc_gpu_suite(features)
spc_watch_allocations(test_features)

# Tensors of more than 2^31 elements. Takes a few seconds and 20 GB on a GPU.
spc_suite(large)
spc_gpu_suite(large)
set_tests_properties(large_gpu PROPERTIES LABELS gpu-large)

# Tests the words of all operators, and runs their examples.
spc_suite(words)
target_sources(test_words PRIVATE ../tuner/command/verify/matrix.c)

# Lists of offsets that outlive those of the caller.
spc_suite(offset_store)
spc_watch_allocations(test_offset_store)
spc_threaded(offset_store)

# Mathematical properties of convolutions.
spc_suite(properties)
spc_gpu_suite(properties)

# Compiles every CUDA template's default for GPUs that are not installed.
spc_suite(targets)
spc_run_suite(targets_nvrtc targets nvrtc)

# The passes of a training step.
spc_suite(gradient_layout)
spc_gpu_suite(gradient_layout)
spc_suite(backward)
spc_gpu_suite(backward)
spc_suite(odd_gradients)
spc_slow(odd_gradients)
spc_gpu_suite(odd_gradients)
spc_suite(feature_gradients)
spc_gpu_suite(feature_gradients)
