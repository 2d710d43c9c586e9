# What is installed: libraries of both kinds, headers, what finds them
# (pkg-config, CMake), the command with its manual page and completions.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(installed spc)
set(headers include/spc.h include/spc_status.h)
if(NOT SPC_RUNTIME_ONLY)
  list(APPEND installed spc_import spctune)
  list(APPEND headers include/spc_import.h)
endif()
foreach(target spc_other spc_import_other)
  if(TARGET ${target})
    list(APPEND installed ${target})
  endif()
endforeach()
install(TARGETS ${installed}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# ---- found by pkg-config and by find_package --------------------------------

set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/spc)
# Both name their folder by their own place, so that the tree may be moved.
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
set(SPC_CMAKE_PRIVATE "${SQLITE_LIBRARY};m;dl;pthread")
# What the database may use besides.
if(TARGET spc_packages)
  get_target_property(packages spc_packages INTERFACE_LINK_LIBRARIES)
  foreach(library IN LISTS packages)
    if(EXISTS "${library}")
      spc_link_word(word "${library}")
      string(PREPEND SPC_PC_PRIVATE "${word} ")
      string(PREPEND SPC_CMAKE_PRIVATE "${library};")
    endif()
  endforeach()
endif()
if(NOT SPC_RUNTIME_ONLY)
  spc_link_word(lua "${LUA_LIBRARY}")
  string(PREPEND SPC_PC_PRIVATE "${lua} ")
  string(PREPEND SPC_CMAKE_PRIVATE "${LUA_LIBRARY};")
endif()
configure_file(cmake/spc.pc.in spc.pc @ONLY)
configure_file(cmake/spcConfig.cmake.in spcConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/spcConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/spc.pc DESTINATION ${pc_dir})
install(FILES ${PROJECT_BINARY_DIR}/spcConfig.cmake
  ${PROJECT_BINARY_DIR}/spcConfigVersion.cmake DESTINATION ${cmake_dir})
if(NOT SPC_RUNTIME_ONLY)
  configure_file(cmake/spc_import.pc.in spc_import.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/spc_import.pc DESTINATION ${pc_dir})
endif()

# ---- for those who type ------------------------------------------------------

# Written by the command itself, and from its manual, when it is installed.
if(NOT SPC_RUNTIME_ONLY)
  find_program(SPC_AWK NAMES awk gawk mawk)
  install(CODE "
    set(at \"${PROJECT_BINARY_DIR}\")
    foreach(shell bash zsh)
      execute_process(COMMAND \"$<TARGET_FILE:spctune>\" completion \${shell}
        OUTPUT_FILE \"\${at}/completion.\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
    execute_process(COMMAND ${SPC_AWK} -v version=${PROJECT_VERSION}
      -f \"${PROJECT_SOURCE_DIR}/cmake/man.awk\"
      \"${PROJECT_SOURCE_DIR}/docs/spctune.1.md\"
      OUTPUT_FILE \"\${at}/spctune.1\" COMMAND_ERROR_IS_FATAL ANY)")
  set(share ${CMAKE_INSTALL_DATADIR})
  install(FILES ${PROJECT_BINARY_DIR}/completion.bash
    DESTINATION ${share}/bash-completion/completions RENAME spctune)
  install(FILES ${PROJECT_BINARY_DIR}/completion.zsh
    DESTINATION ${share}/zsh/site-functions RENAME _spctune)
  install(FILES ${PROJECT_BINARY_DIR}/spctune.1
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(FILES README.md docs/GUIDE.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/spctune)

# ---- a package ---------------------------------------------------------------

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME spctune)
set(CPACK_PACKAGE_CONTACT "The spctune project")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
  "Sparse convolution on 3D point clouds, tuned: libspc and spctune")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_STRIP_FILES ON)
include(CPack)
