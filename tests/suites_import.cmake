# What comes from files of other programs.
function(spc_import_suite name)
  spc_suite(${name})
  target_link_libraries(test_${name} PRIVATE $<TARGET_OBJECTS:spc_import_objects>
    spc_import_needs)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/import)
  target_compile_definitions(test_${name} PRIVATE
    $<TARGET_PROPERTY:spc_import_objects,INTERFACE_COMPILE_DEFINITIONS>)
endfunction()

spc_import_suite(weights)
spc_import_suite(kernel_form)
spc_import_suite(net_weights)
# Mutations of the files of tests/corpus; with an argument, for so many seconds.
spc_import_suite(fuzz_import)
