# SPDX-License-Identifier: Apache-2.0
# Builds a library in both kinds from the same objects: `name`, static or, with
# BUILD_SHARED_LIBS, shared, which everything here links; and `name`_other, the other
# kind, for installation. Sanitizer builds have no shared one.
function(spc_add_library name)
  add_library(${name} ${ARGN})
  set(kinds ${name})
  if(NOT SPC_STATIC AND NOT SPC_SANITIZE)
    if(BUILD_SHARED_LIBS)
      add_library(${name}_other STATIC ${ARGN})
    else()
      add_library(${name}_other SHARED ${ARGN})
    endif()
    list(APPEND kinds ${name}_other)
  endif()
  # The names that find_package(spc) gives them.
  foreach(kind IN LISTS kinds)
    get_target_property(type ${kind} TYPE)
    if(kind STREQUAL name)
      add_library(spc::${name} ALIAS ${kind})
    endif()
    if(type STREQUAL STATIC_LIBRARY)
      add_library(spc::${name}_static ALIAS ${kind})
    endif()
  endforeach()
  set_target_properties(${kinds} PROPERTIES OUTPUT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINKER_LANGUAGE C)
endfunction()

# target_link_libraries for both.
function(spc_link_library name)
  target_link_libraries(${name} ${ARGN})
  if(TARGET ${name}_other)
    target_link_libraries(${name}_other ${ARGN})
  endif()
endfunction()
