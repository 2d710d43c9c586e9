# SPDX-License-Identifier: Apache-2.0
# What is shipped. A shared library shows what its header says, and no more.
if(TARGET spc_other AND NOT BUILD_SHARED_LIBS)
  set(public ${PROJECT_SOURCE_DIR}/include)
  add_test(NAME exports COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/exports.sh
    $<TARGET_FILE:spc_other> ${SPC_PUBLIC_HEADERS})
  add_test(NAME exports_lab COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/exports.sh
    $<TARGET_FILE:spclab_other> ${SPC_PUBLIC_HEADERS})
  add_test(NAME exports_import COMMAND sh
    ${CMAKE_CURRENT_SOURCE_DIR}/exports.sh $<TARGET_FILE:spc_import_other>
    ${public}/spc_import.h)
  foreach(library spc spclab spc_import)
    add_test(NAME abi_${library} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/abi.sh
      ${public} $<TARGET_FILE:${library}_other>
      ${CMAKE_CURRENT_SOURCE_DIR}/abi/lib${library}.abi)
    set_tests_properties(abi_${library} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()

  # Programs that link only libspc, and symbols that libspc must not have.
  add_executable(alone_deployed ../examples/deployed.c)
  target_link_libraries(alone_deployed PRIVATE spc_other m)
  add_executable(alone_plan installed/plan.c)
  target_link_libraries(alone_plan PRIVATE spc_other)
  add_test(NAME libspc_alone COMMAND sh
    ${CMAKE_CURRENT_SOURCE_DIR}/libspc_alone.sh $<TARGET_FILE:spc_other>
    $<TARGET_FILE:spclab> $<TARGET_FILE:spctune> $<TARGET_FILE:alone_deployed>
    $<TARGET_FILE:alone_plan>)
  set(shared_programs spc_other spclab_other spc_import_other alone_deployed
    alone_plan)
endif()

# spc.hpp: a suite with the compiler of the build, and each compiler's warnings.
if(SPC_HAS_CXX)
  set(cxx_warnings -Wall -Wextra -Wpedantic -Wshadow -Werror)
  add_executable(test_hpp cxx/test_hpp.cpp)
  target_compile_options(test_hpp PRIVATE ${cxx_warnings})
  target_link_libraries(test_hpp PRIVATE spc_flags spclab spc spc_check m)
  spc_run_suite(hpp hpp)
endif()
foreach(cxx g++ clang++)
  string(REPLACE "+" "p" program find_${cxx})
  find_program(${program} ${cxx})
  if(${program})
    add_test(NAME header_hpp_${cxx} COMMAND ${${program}} -std=c++17 -Wall -Wextra
      -Wpedantic -Wshadow -Werror -fsyntax-only
      -I${PROJECT_SOURCE_DIR}/include
      ${CMAKE_CURRENT_SOURCE_DIR}/cxx/test_hpp.cpp
      ${PROJECT_SOURCE_DIR}/examples/centerpoint.cpp)
  endif()
endforeach()

# Run on request, because these tests build: ctest --preset dev -C package -L
# package
file(GLOB tuned_texts ${PROJECT_SOURCE_DIR}/tuned/*-*.txt)
add_test(NAME tuned_fresh CONFIGURATIONS package COMMAND sh
  ${CMAKE_CURRENT_SOURCE_DIR}/tuned_fresh.sh $<TARGET_FILE:spctune> ${tuned_texts})
set_tests_properties(tuned_fresh PROPERTIES LABELS package)
add_test(NAME install CONFIGURATIONS package COMMAND sh
  ${CMAKE_CURRENT_SOURCE_DIR}/install.sh ${PROJECT_BINARY_DIR})
add_test(NAME runtime_only CONFIGURATIONS package COMMAND sh
  ${CMAKE_CURRENT_SOURCE_DIR}/runtime_only.sh ${PROJECT_SOURCE_DIR}
  $<TARGET_FILE:spctune> $<TARGET_FILE:deployed>)
add_test(NAME guide CONFIGURATIONS package COMMAND sh
  ${CMAKE_CURRENT_SOURCE_DIR}/guide.sh ${PROJECT_SOURCE_DIR}
  ${PROJECT_BINARY_DIR})
add_test(NAME aarch64 CONFIGURATIONS package COMMAND sh
  ${CMAKE_CURRENT_SOURCE_DIR}/aarch64.sh ${PROJECT_SOURCE_DIR}
  $<TARGET_FILE:spctune>)
set_tests_properties(aarch64 PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(aarch64 guide install runtime_only PROPERTIES LABELS "package;slow"
  TIMEOUT 1200)

add_test(NAME spdx COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/spdx.sh
  ${PROJECT_SOURCE_DIR})
add_test(NAME cmake_version COMMAND sh
  ${CMAKE_CURRENT_SOURCE_DIR}/cmake_version.sh ${PROJECT_SOURCE_DIR})
add_test(NAME plurals COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/plurals.sh
  ${PROJECT_SOURCE_DIR})
add_test(NAME doc_paths COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/doc_paths.sh
  ${PROJECT_SOURCE_DIR})
