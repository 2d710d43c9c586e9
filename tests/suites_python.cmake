# SPDX-License-Identifier: Apache-2.0
# The Python package. Its suites need the shared library; those that need NumPy or
# PyTorch skip themselves where SPC_TEST_PYTHON has none.
if(NOT Python3_FOUND OR NOT TARGET spc_other OR BUILD_SHARED_LIBS)
  return()
endif()
set(SPC_TEST_PYTHON ${Python3_EXECUTABLE} CACHE FILEPATH
  "Python of the suites of the Python package")
set(package ${PROJECT_SOURCE_DIR}/python)

# The mirror of the headers is up to date, and the C compiler agrees with it.
add_test(NAME python_mirror COMMAND ${Python3_EXECUTABLE} -B
  ${PROJECT_SOURCE_DIR}/tools/abi.py --check --cc ${CMAKE_C_COMPILER})

# Suite python_NAME is python/tests/test_NAME.py.
file(GLOB modules RELATIVE ${package}/tests CONFIGURE_DEPENDS
  ${package}/tests/test_*.py)
foreach(module IN LISTS modules)
  get_filename_component(module ${module} NAME_WE)
  string(REPLACE test_ python_ name ${module})
  add_test(NAME ${name} COMMAND ${SPC_TEST_PYTHON} -B
    ${package}/tests/run.py ${module})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 3600
    ENVIRONMENT "SPC_LIBRARY=$<TARGET_FILE:spclab_other>;SPC_DATABASE=${CMAKE_CURRENT_BINARY_DIR}/python.db")
endforeach()

# Run on request, because this test builds everything once more: ctest -C
# package -L package
add_test(NAME python_wheel CONFIGURATIONS package COMMAND sh
  ${CMAKE_CURRENT_SOURCE_DIR}/python_wheel.sh ${PROJECT_SOURCE_DIR}
  ${SPC_TEST_PYTHON} ${CMAKE_CURRENT_BINARY_DIR}/wheel)
add_test(NAME aarch64_wheel CONFIGURATIONS package COMMAND sh
  ${CMAKE_CURRENT_SOURCE_DIR}/aarch64_wheel.sh ${PROJECT_SOURCE_DIR}
  $<TARGET_FILE:spctune> ${SPC_TEST_PYTHON}
  ${CMAKE_CURRENT_BINARY_DIR}/aarch64_wheel)
set_tests_properties(python_wheel aarch64_wheel PROPERTIES SKIP_RETURN_CODE 77
  LABELS "package;slow" TIMEOUT 3600)
