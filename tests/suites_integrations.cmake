# SPDX-License-Identifier: Apache-2.0
# What stands in integrations/. Reading PointCloud2 needs no ROS, and the node
# is run without it.
spc_suite(pointcloud2)
target_sources(test_pointcloud2 PRIVATE ../integrations/ros2/pointcloud2.c)
# The shared code of the operators for other runtimes, with the fake driver.
spc_suite(served)
target_sources(test_served PRIVATE ../integrations/served/served.c)
target_compile_definitions(test_served PRIVATE
  SPC_TEST_NVRTC="$<TARGET_FILE:fake_nvrtc>")
spc_watch_allocations(test_served)
add_dependencies(test_served fake_cuda fake_nvrtc)
set_property(TEST served APPEND PROPERTY
  ENVIRONMENT_MODIFICATION LD_LIBRARY_PATH=path_list_prepend:${fake_cuda_dir})

if(SPC_HAS_CXX AND TARGET spc_other AND NOT SPC_SANITIZE)
  add_test(NAME ros2 COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/integrations/ros2.sh
    ${PROJECT_SOURCE_DIR} $<TARGET_FILE:spctune> ${CMAKE_COMMAND}
    ${CMAKE_CXX_COMPILER} $<TARGET_FILE:spc_other>)
endif()

# Runs the same network with libspc itself, for comparison.
if(TARGET spc_onnxruntime)
  add_executable(operator_reference integrations/reference.c)
  target_link_libraries(operator_reference PRIVATE spc m)
  # Looks for a Python with numpy, onnx and onnxruntime.
  set(SPC_ONNXRUNTIME_PYTHON python3 CACHE STRING "Runs the operator's test")
  add_test(NAME onnxruntime COMMAND ${SPC_ONNXRUNTIME_PYTHON} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/integrations/onnxruntime.py
    $<TARGET_FILE:spc_onnxruntime> $<TARGET_FILE:spctune>
    $<TARGET_FILE:operator_reference>)
  set_tests_properties(onnxruntime PROPERTIES SKIP_RETURN_CODE 77)
  list(APPEND shared_programs operator_reference spc_onnxruntime)
endif()

if(TARGET spc_tensorrt)
  add_executable(tensorrt_host integrations/tensorrt_host.cpp)
  target_include_directories(tensorrt_host SYSTEM PRIVATE
    ${TENSORRT_INCLUDE_DIR} ${CUDA_INCLUDE_DIR})
  target_compile_options(tensorrt_host PRIVATE -Wall -Wextra)
  target_link_libraries(tensorrt_host PRIVATE spc ${CMAKE_DL_LIBS} m)
  set(tensorrt_test sh ${CMAKE_CURRENT_SOURCE_DIR}/integrations/tensorrt.sh
    ${PROJECT_SOURCE_DIR} $<TARGET_FILE:spctune> $<TARGET_FILE:spc_tensorrt>
    $<TARGET_FILE:tensorrt_host>)
  add_test(NAME tensorrt COMMAND ${tensorrt_test})
  add_test(NAME tensorrt_gpu COMMAND ${tensorrt_test} cuda)
  set_tests_properties(tensorrt_gpu PROPERTIES LABELS gpu RUN_SERIAL ON
    SKIP_RETURN_CODE 77)
  list(APPEND shared_programs tensorrt_host spc_tensorrt)
endif()
