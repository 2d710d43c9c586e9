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

spc_import_suite(weights)
spc_import_suite(kernel_form)
spc_import_suite(net_weights)
# Mutations of the files of tests/corpus; with an argument, for so many seconds.
spc_import_suite(fuzz_import)

get_target_property(formats spc_import_objects INTERFACE_COMPILE_DEFINITIONS)
if("SPC_WITH_PROTOBUF" IN_LIST formats)
  spc_import_suite(onnx)
endif()
