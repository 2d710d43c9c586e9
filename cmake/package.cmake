# SPDX-License-Identifier: Apache-2.0
# Packages for Debian and Ubuntu: the libraries, each with the dependencies of its
# own, the development files, the command, and the tuned choices. `cmake --preset deb` has
# the prefix under which these systems search for libraries.
set(SPC_PACKAGE_CONTACT "The spctune project <maintainers@spctune.invalid>"
  CACHE STRING "Maintainer of the packages: Name <address>")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME spctune)
set(CPACK_PACKAGE_CONTACT "${SPC_PACKAGE_CONTACT}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# A tilde sorts before the release: 1.0.0~rc.1 is older than 1.0.0.
string(REPLACE "-" "~" SPC_DEBIAN_VERSION "${SPC_VERSION_TEXT}")
set(CPACK_DEBIAN_PACKAGE_VERSION "${SPC_DEBIAN_VERSION}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/complete.cmake)

# The package of a component. The first line of a description is its synopsis.
macro(spc_package component name section description)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${description}")
  install(FILES cmake/debian/copyright COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name})
  install(FILES ${PROJECT_BINARY_DIR}/changelog.gz COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name})
endmacro()

configure_file(cmake/debian/changelog.in changelog @ONLY)
# Compresses the page without a timestamp, so that it is equal on all
# architectures.
execute_process(COMMAND gzip -9nkf ${PROJECT_BINARY_DIR}/changelog
  COMMAND_ERROR_IS_FATAL ANY)

set(runtime libspc${PROJECT_VERSION_MAJOR})
spc_package(runtime ${runtime} libs
  "sparse convolution on 3D point clouds: runtime library
This package has the runtime library, which runs sparse convolution on GPUs
by CUDA and on CPUs, with kernels that are specialised and tuned for
each layer.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS spctune-data)
spc_package(dev libspc-dev libdevel
  "sparse convolution on 3D point clouds: development files
This package has headers, archives, and what pkg-config and CMake need to
find libspc.")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${runtime} (= ${SPC_DEBIAN_VERSION})")
# The archives and the files of pkg-config need the development files of other
# libraries, which Debian names lib*-dev.
separate_arguments(formats UNIX_COMMAND "${SPC_PC_FORMATS}")
foreach(name IN LISTS SPC_CMAKE_PRIVATE SPC_LAB_CMAKE_PRIVATE formats)
  string(REGEX REPLACE "^lib" "" name ${name})
  if(NOT name STREQUAL "stdc++")
    string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", lib${name}-dev")
  endif()
endforeach()
if(NOT SPC_RUNTIME_ONLY)
  list(APPEND CPACK_COMPONENTS_ALL import lab command data)
  spc_package(import libspc-import${PROJECT_VERSION_MAJOR} libs
    "sparse convolution on 3D point clouds: import library
This package has the library that reads weights and networks of other
programs, such as .onnx and .safetensors files.")
  spc_package(lab libspclab${PROJECT_VERSION_MAJOR} libs
    "sparse convolution on 3D point clouds: tuning library
This package has the library that verifies, measures and tunes kernels, in
your own programs and in the command.")
  # dpkg-shlibdeps looks for libspc here, as it is not installed yet.
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/runtime)
  foreach(library IMPORT LAB)
    set(CPACK_DEBIAN_${library}_PACKAGE_SHLIBDEPS ON)
    # It uses functions of libspc that are not public.
    set(CPACK_DEBIAN_${library}_PACKAGE_DEPENDS
      "${runtime} (= ${SPC_DEBIAN_VERSION})")
    string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
      ", ${CPACK_DEBIAN_${library}_PACKAGE_NAME} (= ${SPC_DEBIAN_VERSION})")
  endforeach()
  spc_package(command spctune science
    "sparse convolution on 3D point clouds: tuning command
This package has the command, which generates, verifies and tunes kernels
for your layers and scenes, and stores the fastest in a database.")
  set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "spctune-data, gcc")
  spc_package(data spctune-data science
    "sparse convolution on 3D point clouds: tuned choices
This package has the kernels that were fastest on classes of devices:
libspc looks them up where nothing was tuned on the machine itself.")
  set(CPACK_DEBIAN_DATA_PACKAGE_ARCHITECTURE all)
endif()
include(CPack)
