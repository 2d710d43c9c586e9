# SPDX-License-Identifier: Apache-2.0
option(SPC_STATIC "Link Lua and SQLite statically" OFF)
option(SPC_RUNTIME_ONLY "No Lua, compilers, tuner: libspc serves a database"
       OFF)
# A project that contains this one needs only the libraries: spc::spc and
# spc::spc_import.
option(SPC_TESTS "Build the tests (needs Check)" ${PROJECT_IS_TOP_LEVEL})
option(SPC_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(SPC_INSTALL "Install, package, and pack what was tuned"
       ${PROJECT_IS_TOP_LEVEL})
option(SPC_PYTHON "Install for the Python wheel (component python)" OFF)
option(SPC_ONNXRUNTIME "Build the operator for ONNX Runtime (its header)" OFF)
option(SPC_TENSORRT "Build the plugin for TensorRT (its headers, CUDA's)" OFF)
set(SPC_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
# A version script says what a shared library shows. libspclab uses functions of
# libspc that are not public; a libspc for the runtime alone hides them.
if(SPC_RUNTIME_ONLY)
  set(CMAKE_C_VISIBILITY_PRESET hidden)
else()
  set(CMAKE_C_VISIBILITY_PRESET default)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

# Assertions stay on in every build but release.
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELWITHDEBINFO
       "${CMAKE_C_FLAGS_RELWITHDEBINFO}")

# One interface target carries what every one of our targets compiles with.
add_library(spc_flags INTERFACE)
target_compile_definitions(spc_flags INTERFACE _GNU_SOURCE
                           SPC_VERSION="${SPC_VERSION_TEXT}")
# An include names the room of a header: "coords/map.h", "base/buf.h".
# tests/rooms.sh checks that no room includes one above it.
target_include_directories(spc_flags INTERFACE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/runtime ${PROJECT_SOURCE_DIR}/tuner)
target_compile_options(spc_flags INTERFACE -Wall -Wextra -Wshadow
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  -Wno-unused-parameter -fno-semantic-interposition)
if(SPC_SANITIZE)
  target_compile_options(spc_flags INTERFACE -fsanitize=${SPC_SANITIZE}
    -fno-omit-frame-pointer)
  target_link_options(spc_flags INTERFACE -fsanitize=${SPC_SANITIZE})
  target_compile_definitions(spc_flags INTERFACE
    SPC_SANITIZE="${SPC_SANITIZE}")
endif()

# The command that packs choices and writes completions: the one just built, or,
# if that does not run here, one of the same version for this machine.
set(SPC_HOST_SPCTUNE "" CACHE FILEPATH
  "Cross builds: a spctune of this version that runs on the build machine")
if(SPC_HOST_SPCTUNE)
  set(SPC_RUN_SPCTUNE ${SPC_HOST_SPCTUNE})
elseif(NOT CMAKE_CROSSCOMPILING)
  set(SPC_RUN_SPCTUNE $<TARGET_FILE:spctune>)
elseif(CMAKE_CROSSCOMPILING_EMULATOR)
  set(SPC_RUN_SPCTUNE ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:spctune>)
else()
  set(SPC_RUN_SPCTUNE)
  message(STATUS "cross build without SPC_HOST_SPCTUNE: no tuned databases and "
                 "no completions are installed")
endif()
