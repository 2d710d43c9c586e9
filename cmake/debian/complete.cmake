# SPDX-License-Identifier: Apache-2.0
# Adds to the packages of CPack what it cannot write itself:
# the field Multi-Arch (before CMake 3.31), the trigger of a shared library
# instead of scripts that call ldconfig, compressed manual pages, and links to the
# licence, which Debian's packages have in the file `copyright`.
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  set(tree ${CPACK_TEMPORARY_DIRECTORY}/complete)
  file(REMOVE_RECURSE ${tree})
  execute_process(COMMAND dpkg-deb -R ${package} ${tree}
    COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${tree}/DEBIAN/control control)
  if(control MATCHES "Package: libspc")
    set(kind same)
  else()
    set(kind foreign)
  endif()
  if(NOT control MATCHES "Multi-Arch:")
    string(REPLACE "Section:" "Multi-Arch: ${kind}\nSection:" control
      "${control}")
  endif()
  file(WRITE ${tree}/DEBIAN/control "${control}")
  if(EXISTS ${tree}/DEBIAN/shlibs)
    file(REMOVE ${tree}/DEBIAN/postinst ${tree}/DEBIAN/postrm)
    file(WRITE ${tree}/DEBIAN/triggers "activate-noawait ldconfig\n")
  endif()
  file(GLOB pages ${tree}/usr/share/man/man1/*.1)
  foreach(page IN LISTS pages)
    execute_process(COMMAND gzip -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  file(GLOB documents ${tree}/usr/share/doc/spctune/*.md)
  foreach(document IN LISTS documents)
    execute_process(COMMAND sed -i "s/](LICENSE)/](copyright)/" ${document}
      COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND sh -c
    "find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums"
    WORKING_DIRECTORY ${tree} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND dpkg-deb --root-owner-group -b ${tree} ${package}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE_RECURSE ${tree})
endforeach()
