# SPDX-License-Identifier: Apache-2.0
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

# Debian and Ubuntu ship both the shared and the static library.
if(SPC_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()
if(NOT SPC_RUNTIME_ONLY)
  find_path(LUA_INCLUDE lua.h PATH_SUFFIXES lua5.4 lua54 REQUIRED)
  find_library(LUA_LIBRARY NAMES lua5.4 lua54 lua REQUIRED)
endif()
find_path(SQLITE_INCLUDE sqlite3.h REQUIRED)
find_library(SQLITE_LIBRARY sqlite3 REQUIRED)
unset(CMAKE_FIND_LIBRARY_SUFFIXES)

if(NOT SPC_RUNTIME_ONLY)
  add_library(spc_lua INTERFACE)
  target_include_directories(spc_lua SYSTEM INTERFACE ${LUA_INCLUDE})
  target_link_libraries(spc_lua INTERFACE ${LUA_LIBRARY} m ${CMAKE_DL_LIBS})
endif()
add_library(spc_sqlite INTERFACE)
target_include_directories(spc_sqlite SYSTEM INTERFACE ${SQLITE_INCLUDE})
target_link_libraries(spc_sqlite INTERFACE ${SQLITE_LIBRARY} m
                      Threads::Threads ${CMAKE_DL_LIBS})

# Optional packages of the database: zstd, which compresses shipped code, and
# libsodium, which checks signatures.
option(SPC_PACKAGES "Use libzstd and libsodium where they are" ON)
add_library(spc_packages INTERFACE)
function(spc_use_package macro name header)
  if(SPC_STATIC)
    set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  endif()
  find_path(${macro}_INCLUDE ${header})
  find_library(${macro}_LIBRARY ${name})
  if(SPC_PACKAGES AND ${macro}_INCLUDE AND ${macro}_LIBRARY)
    target_include_directories(spc_packages SYSTEM INTERFACE
      ${${macro}_INCLUDE})
    target_link_libraries(spc_packages INTERFACE ${${macro}_LIBRARY})
    target_compile_definitions(spc_packages INTERFACE ${macro})
  else()
    message(STATUS "${name}: not used; the database does without it")
  endif()
endfunction()
spc_use_package(SPC_WITH_ZSTD zstd zstd.h)
spc_use_package(SPC_WITH_SODIUM sodium sodium.h)

# Optional: laszip, which reads compressed LAS files.
option(SPC_LASZIP "Use laszip where it is" ON)
add_library(spc_laszip INTERFACE)
if(NOT SPC_RUNTIME_ONLY)
  if(SPC_STATIC)
    set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  endif()
  find_path(LASZIP_INCLUDE laszip/laszip_api.h)
  find_library(LASZIP_LIBRARY NAMES laszip laszip3)
  unset(CMAKE_FIND_LIBRARY_SUFFIXES)
  if(SPC_LASZIP AND LASZIP_INCLUDE AND LASZIP_LIBRARY)
    target_include_directories(spc_laszip SYSTEM INTERFACE ${LASZIP_INCLUDE})
    target_link_libraries(spc_laszip INTERFACE ${LASZIP_LIBRARY})
    target_compile_definitions(spc_laszip INTERFACE SPC_WITH_LASZIP)
  else()
    message(STATUS "laszip: not used; .laz files are refused")
  endif()
endif()

# CUDA's driver and NVRTC are opened at run time; nothing is linked. This
# check only reports at configure time what this machine supports.
find_library(NVRTC_FOUND nvrtc
  HINTS /usr/local/cuda/lib64 $ENV{CUDA_HOME}/lib64 $ENV{CUDA_PATH}/lib64
  NO_CACHE)
if(SPC_RUNTIME_ONLY)
  message(STATUS "runtime only: no compiler is used")
elseif(NVRTC_FOUND)
  message(STATUS "NVRTC: ${NVRTC_FOUND} (opened at run time)")
else()
  message(STATUS "NVRTC: not found; the build succeeds, but compiling CUDA "
                 "templates will need the CUDA Toolkit at run time")
endif()
