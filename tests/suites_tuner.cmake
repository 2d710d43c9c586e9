# The tuner: its engine, all shipped candidates, and the command.
spc_suite(tuner)
# Workers are the command itself.
target_compile_definitions(test_tuner PRIVATE
  SPC_TEST_COMMAND="$<TARGET_FILE:spctune>")
add_dependencies(test_tuner spctune)

spc_suite(candidates)
set_tests_properties(candidates PROPERTIES LABELS slow TIMEOUT 1200)
