# SPDX-License-Identifier: Apache-2.0
# The tuner: its engine, all shipped candidates, and the command.
spc_suite(tuner)
spc_suite(tuner_records)
spc_suite(tuner_workers)
spc_suite(tuner_targets)
spc_suite(tuner_input)
spc_suite(builder)
# Workers are processes of the command.
foreach(name tuner tuner_workers)
  target_compile_definitions(test_${name} PRIVATE
    SPC_TEST_COMMAND="$<TARGET_FILE:spctune>")
  add_dependencies(test_${name} spctune)
endforeach()

spc_suite(finals) # the end of a search, and choices in a network
target_sources(test_finals PRIVATE ../tuner/command/network/joint_layouts.c
  ../tuner/command/network/rivals.c)
spc_suite(joint) # choices that are stored after a search
target_sources(test_joint PRIVATE ../tuner/command/network/joint_layouts.c
  ../tuner/command/cli/phase.c ../tuner/command/cli/progress.c
  ../tuner/command/cli/terminal.c ../tuner/command/network/network_confirm.c
  ../tuner/command/network/rivals.c)
target_link_options(test_joint PRIVATE
  -Wl,--wrap=spc_net_plan_capture,--wrap=spc_net_plan_step_at)
spc_suite(candidates)
spc_gpu_suite(candidates)
spc_slow(candidates)

# Runs a sample of verify --all.
foreach(device cpu sim)
  add_test(NAME verify_sample_${device} COMMAND sh
    ${CMAKE_CURRENT_SOURCE_DIR}/verify_sample.sh $<TARGET_FILE:spctune>
    ${device} 2)
  set_tests_properties(verify_sample_${device} PROPERTIES TIMEOUT 3600
    ENVIRONMENT "SPC_TEST_DATABASE=${shared_code}")
endforeach()
spc_slow(verify_sample_sim)

# Recorded command lines. tests/cli/run.sh --record writes them anew.
file(GLOB SPC_CLI_CASES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cli/*.case)
foreach(case IN LISTS SPC_CLI_CASES)
  get_filename_component(name ${case} NAME_WE)
  add_test(NAME cli_${name} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/run.sh
    $<TARGET_FILE:spctune> ${case})
  set_tests_properties(cli_${name} PROPERTIES LABELS cli TIMEOUT 3600)
endforeach()
# These tests wait or compile much. Other tests run their code under the
# sanitizers.
spc_slow(cli_audit cli_frames cli_interrupt cli_killed cli_lists cli_peers)

# The manual page and the completions agree with the tables of options.
add_test(NAME manual COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/manual.sh
  $<TARGET_FILE:spctune> ${PROJECT_SOURCE_DIR}/docs/spctune.1.md)

# areas.txt names only existing suites.
file(GLOB cli_cases RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/cli
  ${CMAKE_CURRENT_SOURCE_DIR}/cli/*.case)
list(TRANSFORM cli_cases REPLACE "(.*)[.]case" "cli_\\1\n" OUTPUT_VARIABLE cli_names)
string(JOIN "" cli_names ${cli_names})
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/other_tests.txt CONTENT "${cli_names}")
add_test(NAME touched COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/touched_test.sh
  ${CMAKE_CURRENT_BINARY_DIR}/programs.txt ${CMAKE_CURRENT_BINARY_DIR}/other_tests.txt)

# Runs the unchanged programs of the documents. Here programs without a file
# name run; guide.sh runs the others.
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/README.md
  ${PROJECT_SOURCE_DIR}/docs/*.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${pages})
add_custom_target(doc_programs)
set(doc_count 0)
foreach(page ${pages})
  get_filename_component(name ${page} NAME_WE)
  file(READ ${page} text)
  # A semicolon would split a match of the list, and a bracket would join
  # several.
  string(REPLACE ";" "<semicolon>" text "${text}")
  string(REPLACE "[" "<bracket>" text "${text}")
  string(REPLACE "]" "<end bracket>" text "${text}")
  string(REGEX MATCHALL "\n```c(pp)?( [a-z_]+[.]c(pp)?)?\n[^`]*```" blocks "${text}")
  set(number 0)
  foreach(block ${blocks})
    math(EXPR number "${number} + 1")
    string(REGEX MATCH "^\n```c(pp)?( [^\n]*)?\n([^`]*)```" found "${block}")
    set(language "${CMAKE_MATCH_1}")
    set(file_name "${CMAKE_MATCH_2}")
    set(code "${CMAKE_MATCH_3}")
    string(REPLACE "<semicolon>" ";" code "${code}")
    string(REPLACE "<bracket>" "[" code "${code}")
    string(REPLACE "<end bracket>" "]" code "${code}")
    set(program doc_${name}_${number})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${program}.c${language})
    file(GENERATE OUTPUT ${source} CONTENT "${code}")
    if(language)
      if(SPC_CXX)
        add_test(NAME ${program} COMMAND ${SPC_CXX} -std=c++17 -Wall -Wextra
          -Wpedantic -Werror -fsyntax-only -I${PROJECT_SOURCE_DIR}/include
          ${source})
      endif()
    elseif(code MATCHES "int main\\(")
      add_executable(${program} ${source})
      target_link_libraries(${program} PRIVATE spclab spc)
      add_dependencies(doc_programs ${program})
      math(EXPR doc_count "${doc_count} + 1")
      if(NOT file_name)
        add_test(NAME ${program} COMMAND ${program})
        # The program ends without freeing anything, as short programs may.
        set_tests_properties(${program} PROPERTIES
          ENVIRONMENT "SPC_DATABASE=;ASAN_OPTIONS=detect_leaks=0")
      endif()
    endif()
  endforeach()
endforeach()
if(doc_count LESS 2)
  message(FATAL_ERROR "The documents have ${doc_count} programs, not two")
endif()

# A named database that cannot be opened is reported with the reason.
add_test(NAME jit_layer_database COMMAND jit_layer -d cpu
  --database ${PROJECT_SOURCE_DIR}/README.md)
set_tests_properties(jit_layer_database PROPERTIES
  PASS_REGULAR_EXPRESSION "README.md': it is not a SQLite database")

# The frame loop on a small scene.
foreach(device cpu sim)
  add_test(NAME frames_example_${device} COMMAND frames ${device} 20 200)
  set_tests_properties(frames_example_${device} PROPERTIES
    PASS_REGULAR_EXPRESSION "^20 frames, .* voxels, all well"
    ENVIRONMENT "SPC_DATABASE=")
endforeach()

# Frames, a second network and copies run at the same time. Every result must
# repeat.
add_test(NAME vehicle COMMAND vehicle --device cpu --database "" --network
  ${CMAKE_CURRENT_SOURCE_DIR}/networks/vehicle.lua --dtype f32 --frames 200
  --voxels 6000 --points 8000 --hog 64 --check 1)

# A network must learn as in double precision.
add_test(NAME train_step COMMAND train_step cpu 12)
spc_slow(train_step)
set_tests_properties(train_step PROPERTIES
  PASS_REGULAR_EXPRESSION "learnt, as in double" FAIL_REGULAR_EXPRESSION "NOT"
  ENVIRONMENT "SPC_DATABASE=")
