# SPDX-License-Identifier: Apache-2.0
# Installs the static and shared libraries, headers, files for pkg-config and
# CMake, and the command with its manual page and completions.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Installs both kinds of a library; `component` gets the shared one.
function(spc_install_library component name)
  foreach(target ${name} ${name}_other)
    if(TARGET ${target})
      install(TARGETS ${target}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
          NAMELINK_COMPONENT dev)
    endif()
  endforeach()
endfunction()
spc_install_library(runtime spc)
set(headers include/spc.h include/spc.hpp)
if(NOT SPC_RUNTIME_ONLY)
  spc_install_library(import spc_import)
  spc_install_library(lab spclab)
  list(APPEND headers include/spc_import.h)
  install(TARGETS spctune DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
endif()
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(DIRECTORY include/spc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT dev)

# ---- pkg-config and find_package --------------------------------------------

set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/spc)
# Both derive their folder from their own path, so that the tree may be moved.
file(RELATIVE_PATH SPC_PC_UP /${pc_dir} /)
file(RELATIVE_PATH SPC_CMAKE_UP /${cmake_dir} /)

# "/usr/lib/liblua5.4.so" as "-llua5.4".
function(spc_link_word out library)
  get_filename_component(name "${library}" NAME)
  string(REGEX REPLACE "^lib(.*)[.](so|a|dylib)$" "-l\\1" word "${name}")
  set(${out} "${word}" PARENT_SCOPE)
endfunction()
spc_link_word(sqlite "${SQLITE_LIBRARY}")
set(SPC_PC_PRIVATE "${sqlite} -lm -ldl -lpthread")
set(SPC_CMAKE_PRIVATE "${sqlite}")
# Optional libraries of the database.
if(TARGET spc_packages)
  get_target_property(packages spc_packages INTERFACE_LINK_LIBRARIES)
  foreach(library IN LISTS packages)
    if(EXISTS "${library}")
      spc_link_word(word "${library}")
      string(PREPEND SPC_PC_PRIVATE "${word} ")
      string(PREPEND SPC_CMAKE_PRIVATE "${word};")
    endif()
  endforeach()
endif()
if(NOT SPC_RUNTIME_ONLY)
  spc_link_word(lua "${LUA_LIBRARY}")
  string(PREPEND SPC_PC_PRIVATE "${lua} ")
  string(PREPEND SPC_CMAKE_PRIVATE "${lua};")
endif()
# laszip, of libspclab; its archive needs the library of C++.
set(SPC_LAB_PC_PRIVATE)
set(SPC_LAB_CMAKE_PRIVATE)
get_target_property(laszip spc_laszip INTERFACE_LINK_LIBRARIES)
if(laszip)
  set(SPC_LAB_PC_PRIVATE "-llaszip -lstdc++ ")
  set(SPC_LAB_CMAKE_PRIVATE laszip stdc++)
endif()
string(REPLACE "-l" "" SPC_CMAKE_PRIVATE "${SPC_CMAKE_PRIVATE}")
configure_file(cmake/spc.pc.in spc.pc @ONLY)
configure_file(cmake/spcConfig.cmake.in spcConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/spcConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/spc.pc DESTINATION ${pc_dir} COMPONENT dev)
install(FILES ${PROJECT_BINARY_DIR}/spcConfig.cmake
  ${PROJECT_BINARY_DIR}/spcConfigVersion.cmake DESTINATION ${cmake_dir}
  COMPONENT dev)
if(NOT SPC_RUNTIME_ONLY)
  foreach(name spc_import spclab)
    configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${pc_dir}
      COMPONENT dev)
  endforeach()
endif()

# ---- the command's manual page and completions -------------------------------

# The manual page is made from its Markdown, completions by the command.
set(share ${CMAKE_INSTALL_DATADIR})
if(NOT SPC_RUNTIME_ONLY)
  find_program(SPC_AWK NAMES awk gawk mawk REQUIRED)
  install(CODE "
    execute_process(COMMAND ${SPC_AWK} -v version=${SPC_VERSION_TEXT}
      -f \"${PROJECT_SOURCE_DIR}/cmake/man.awk\"
      \"${PROJECT_SOURCE_DIR}/docs/spctune.1.md\"
      OUTPUT_FILE \"${PROJECT_BINARY_DIR}/spctune.1\"
      COMMAND_ERROR_IS_FATAL ANY)" COMPONENT command)
  install(FILES ${PROJECT_BINARY_DIR}/spctune.1 COMPONENT command
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
if(NOT SPC_RUNTIME_ONLY AND SPC_RUN_SPCTUNE)
  # Debian's zsh looks for completions of packages in a folder of its own.
  set(zsh_dir ${share}/zsh/site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
    set(zsh_dir ${share}/zsh/vendor-completions)
  endif()
  install(CODE "
    set(run \"${SPC_RUN_SPCTUNE}\")
    foreach(shell bash zsh)
      execute_process(COMMAND \${run} completion \${shell}
        OUTPUT_FILE \"${PROJECT_BINARY_DIR}/completion.\${shell}\"
        COMMAND_ERROR_IS_FATAL ANY)
    endforeach()" COMPONENT command)
  install(FILES ${PROJECT_BINARY_DIR}/completion.bash COMPONENT command
    DESTINATION ${share}/bash-completion/completions RENAME spctune)
  install(FILES ${PROJECT_BINARY_DIR}/completion.zsh COMPONENT command
    DESTINATION ${zsh_dir} RENAME _spctune)
endif()
install(FILES LICENSE COMPONENT license DESTINATION ${share}/doc/spctune)
# The documents lie as in the source tree, except the headers that they name.
file(RELATIVE_PATH headers /${share}/doc/spctune
  /${CMAKE_INSTALL_INCLUDEDIR}/)
install(CODE "
  file(READ \"${PROJECT_SOURCE_DIR}/README.md\" text)
  string(REPLACE \"](include/\" \"](${headers}/\" text \"\${text}\")
  file(WRITE \"${PROJECT_BINARY_DIR}/README.md\" \"\${text}\")"
  COMPONENT command)
install(FILES ${PROJECT_BINARY_DIR}/README.md CHANGELOG.md CONTRIBUTING.md
  COMPONENT command DESTINATION ${share}/doc/spctune)
install(FILES templates/README.md COMPONENT command
  DESTINATION ${share}/doc/spctune/templates)
install(DIRECTORY examples COMPONENT command DESTINATION ${share}/doc/spctune
  PATTERN "CMakeLists.txt" EXCLUDE PATTERN "quickstart.sh" EXCLUDE)
install(DIRECTORY docs COMPONENT command DESTINATION ${share}/doc/spctune
  PATTERN "site.css" EXCLUDE)
