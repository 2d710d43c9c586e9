# SPDX-License-Identifier: Apache-2.0
# Check. With SPC_STATIC its archive, so that the programs run where it is not
# installed; Debian's is built with subunit.
pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check)
add_library(spc_check INTERFACE)
if(SPC_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  find_library(CHECK_ARCHIVE NAMES check_pic check REQUIRED)
  find_library(SUBUNIT_ARCHIVE NAMES subunit)
  unset(CMAKE_FIND_LIBRARY_SUFFIXES)
  target_include_directories(spc_check SYSTEM INTERFACE ${CHECK_INCLUDE_DIRS})
  target_link_libraries(spc_check INTERFACE ${CHECK_ARCHIVE} Threads::Threads m)
  if(SUBUNIT_ARCHIVE)
    target_link_libraries(spc_check INTERFACE ${SUBUNIT_ARCHIVE})
  endif()
else()
  target_link_libraries(spc_check INTERFACE PkgConfig::CHECK)
endif()
