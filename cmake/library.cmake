# SPDX-License-Identifier: Apache-2.0
# Builds a library in both kinds from the same objects: `name`, static or, with
# BUILD_SHARED_LIBS, shared, which everything here links; and `name`_other, the other
# kind, for installation. Sanitizer builds have no shared one. find_package(spc) calls
# them spc::`public` and spc::`public`_static. The folder's lib`name`.map.in lists
# what the shared one shows.
function(spc_add_library name public)
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
  add_library(spc::${public} ALIAS ${name})
  configure_file(lib${name}.map.in lib${name}.map @ONLY)
  foreach(kind IN LISTS kinds)
    get_target_property(type ${kind} TYPE)
    if(type STREQUAL STATIC_LIBRARY)
      add_library(spc::${public}_static ALIAS ${kind})
    else()
      # Calls inside the library cannot be replaced from outside, so they are direct.
      target_link_options(${kind} PRIVATE -Wl,--no-undefined -Wl,-Bsymbolic
        -Wl,--version-script=${CMAKE_CURRENT_BINARY_DIR}/lib${name}.map)
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

# Links another library of ours, each kind with the same kind.
function(spc_link_beside name other)
  target_link_libraries(${name} PUBLIC ${other})
  if(TARGET ${name}_other)
    target_link_libraries(${name}_other PUBLIC ${other}_other)
  endif()
endfunction()
