# The tuner: its engine, all shipped candidates, and the command.
spc_suite(tuner)
# Workers are the command itself.
target_compile_definitions(test_tuner PRIVATE
  SPC_TEST_COMMAND="$<TARGET_FILE:spctune>")
add_dependencies(test_tuner spctune)

spc_suite(candidates)
set_tests_properties(candidates PROPERTIES LABELS slow TIMEOUT 1200)

# Recorded command lines; tests/cli/run.sh --record writes them anew.
file(GLOB SPC_CLI_CASES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cli/*.case)
foreach(case IN LISTS SPC_CLI_CASES)
  get_filename_component(name ${case} NAME_WE)
  add_test(NAME cli_${name} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/run.sh
    $<TARGET_FILE:spctune> ${case})
endforeach()
