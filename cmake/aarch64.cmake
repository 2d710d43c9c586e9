# SPDX-License-Identifier: Apache-2.0
# Toolchain: from x86-64 to 64-bit Arm, on Debian with
#     dpkg --add-architecture arm64
#     apt-get install crossbuild-essential-arm64 qemu-user liblua5.4-dev:arm64 \
#         libsqlite3-dev:arm64
# and any optional packages for arm64. The programs run under qemu-user with
# the libraries of that architecture.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# CPack would ask dpkg, which names the architecture of the build machine.
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
set(ENV{PKG_CONFIG_LIBDIR}
  /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
find_program(SPC_QEMU_AARCH64 qemu-aarch64)
if(SPC_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${SPC_QEMU_AARCH64} -L /)
endif()
