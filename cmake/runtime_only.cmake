# SPDX-License-Identifier: Apache-2.0
# libspc without Lua, compilers, laboratory, tuner and the emulation: it runs the
# kernels of a database. It needs only a driver, opened at run time, and SQLite.
# Functions of spc.h that it leaves out cannot be linked.
set(objects
  $<TARGET_OBJECTS:spc_scene> $<TARGET_OBJECTS:spc_net> $<TARGET_OBJECTS:spc_plan>
  $<TARGET_OBJECTS:spc_coords> $<TARGET_OBJECTS:spc_context>
  $<TARGET_OBJECTS:spc_device> $<TARGET_OBJECTS:spc_operators>
  $<TARGET_OBJECTS:spc_cache> $<TARGET_OBJECTS:spc_compiler>
  $<TARGET_OBJECTS:spc_templates> $<TARGET_OBJECTS:spc_base>)
spc_add_library(spc ${objects})
spc_link_library(spc PRIVATE spc_flags spc_sqlite spc_packages Threads::Threads m
  ${CMAKE_DL_LIBS})
spc_link_library(spc INTERFACE $<BUILD_INTERFACE:spc_public>)

add_executable(deployed examples/deployed.c)
target_link_libraries(deployed PRIVATE spc m)
