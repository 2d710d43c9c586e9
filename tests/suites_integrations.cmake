# SPDX-License-Identifier: Apache-2.0
# What stands in integrations/. Reading PointCloud2 needs no ROS, and the node
# is run without it.
spc_suite(pointcloud2)
target_sources(test_pointcloud2 PRIVATE ../integrations/ros2/pointcloud2.c)
if(SPC_HAS_CXX AND TARGET spc_other AND NOT SPC_SANITIZE)
  add_test(NAME ros2 COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/integrations/ros2.sh
    ${PROJECT_SOURCE_DIR} $<TARGET_FILE:spctune> ${CMAKE_CXX_COMPILER}
    $<TARGET_FILE:spc_other> -Wl,-rpath,$<TARGET_FILE_DIR:spc_other> -lm)
endif()
