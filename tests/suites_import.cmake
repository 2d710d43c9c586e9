# SPDX-License-Identifier: Apache-2.0
# What comes from files of other programs.
function(spc_import_suite name)
  spc_suite(${name})
  target_link_libraries(test_${name} PRIVATE $<TARGET_OBJECTS:spc_import_objects>
    spc_import_needs)
  foreach(what INCLUDE_DIRECTORIES COMPILE_DEFINITIONS)
    set_property(TARGET test_${name} APPEND PROPERTY ${what}
      $<TARGET_PROPERTY:spc_import_objects,INTERFACE_${what}>)
  endforeach()
endfunction()

# Readers of the command have no library of their own.
spc_import_suite(fuzz_texts)
target_sources(test_fuzz_texts PRIVATE ../tuner/command/audit/audit_figures.c
  ../tuner/command/cli/cli.c ../tuner/command/cli/config.c ../tuner/command/cli/npy.c
  ../tuner/command/cli/out_file.c ../tuner/command/bench/peers.c ../tuner/command/layer_text.c
  ../tuner/command/tune/worklist.c)
spc_import_suite(weights)
spc_import_suite(import_arguments)
spc_import_suite(kernel_form)
spc_import_suite(net_weights)
# Conventions of other engines, by their own definitions.
spc_import_suite(conventions)
spc_gpu_suite(conventions)
# Mutations of the files of tests/corpus.
spc_import_suite(fuzz_import)
spc_watch_allocations(test_fuzz_import)

get_target_property(formats spc_import_objects INTERFACE_COMPILE_DEFINITIONS)
if("SPC_WITH_LIBZIP" IN_LIST formats)
  spc_import_suite(torch_file)
endif()
if("SPC_WITH_PROTOBUF" IN_LIST formats)
  spc_import_suite(onnx)
  # Makes sixty points, repeated, at the corner of the example's grid.
  set(scan ${CMAKE_CURRENT_SOURCE_DIR}/golden/corner.bin)
  add_test(NAME centerpoint_example COMMAND centerpoint
    ${CMAKE_CURRENT_SOURCE_DIR}/corpus/small.onnx cpu ${shared_code} ${scan}
    ${scan})
  set_tests_properties(centerpoint_example PROPERTIES
    PASS_REGULAR_EXPRESSION "(53 voxels, a plane of 6912 bytes.*)(53 voxels)"
    DEPENDS onnx)
  set(centerpoint_cpp)
  if(TARGET centerpoint_cpp)
    set(centerpoint_cpp $<TARGET_FILE:centerpoint_cpp>)
  endif()
  add_test(NAME centerpoint_stored COMMAND sh
    ${CMAKE_CURRENT_SOURCE_DIR}/centerpoint.sh $<TARGET_FILE:spctune>
    $<TARGET_FILE:centerpoint> ${PROJECT_SOURCE_DIR}
    ${centerpoint_cpp})
  set_tests_properties(centerpoint_stored PROPERTIES
    ENVIRONMENT "SPC_TEST_DATABASE=${shared_code}" DEPENDS centerpoint_example)
  spc_slow(centerpoint_example centerpoint_stored)
endif()

# The converter of .pth files, on a double of PyTorch.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
  # Includes point in one direction, from room to room.
  add_test(NAME rooms COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/rooms.py ${PROJECT_SOURCE_DIR})
  # The lines of documents are short enough for a window.
  add_test(NAME doc_lines COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/doc_lines.py ${PROJECT_SOURCE_DIR})
  # The plots, pictures and tables of the documents are up to date.
  add_test(NAME plots COMMAND ${Python3_EXECUTABLE} -B
    ${PROJECT_SOURCE_DIR}/tools/plots.py --check)
  # So are the list and the page of other papers' figures.
  add_test(NAME papers COMMAND ${Python3_EXECUTABLE} -B
    ${PROJECT_SOURCE_DIR}/benchmarks/papers.py --check)
  add_test(NAME pictures COMMAND ${Python3_EXECUTABLE} -B
    ${PROJECT_SOURCE_DIR}/tools/pictures.py $<TARGET_FILE:spctune> --check)
  # The reference has every function of the headers, and their comments are
  # complete.
  add_test(NAME apidoc COMMAND ${Python3_EXECUTABLE} -B
    ${PROJECT_SOURCE_DIR}/tools/apidoc.py ${PROJECT_SOURCE_DIR}/include
    -o ${CMAKE_CURRENT_BINARY_DIR}/api)
  add_test(NAME apidoc_rules COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/test_apidoc.py)
  add_test(NAME pth2safetensors COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/test_pth2safetensors.py
    $<TARGET_FILE:spctune>)
endif()

# Compiles the second header alone.
add_test(NAME header_import_c11 COMMAND ${CMAKE_C_COMPILER} -std=c11 -Wall
  -Wextra -Wpedantic -Werror -fsyntax-only -x c
  ${PROJECT_SOURCE_DIR}/include/spc_import.h)
if(SPC_CXX)
  add_test(NAME header_import_cxx17 COMMAND ${SPC_CXX} -std=c++17 -Wall -Wextra
    -Wpedantic -Werror -fsyntax-only -x c++
    ${PROJECT_SOURCE_DIR}/include/spc_import.h)
endif()

if(NOT "SPC_WITH_JANSSON" IN_LIST formats OR NOT "SPC_WITH_LIBZIP" IN_LIST formats
    OR NOT "SPC_WITH_PROTOBUF" IN_LIST formats)
  set_tests_properties(cli_weights PROPERTIES DISABLED ON)
endif()
