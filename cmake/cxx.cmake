# SPDX-License-Identifier: Apache-2.0
# C++ is for one example, the tests of spc.hpp, and the plugin for TensorRT.
# Without a compiler of it (SPC_HAS_CXX is then empty) these are left out.
set(SPC_HAS_CXX)
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CXX_COMPILER)
  return() # CMake would take the compiler of this machine
endif()
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  set(SPC_HAS_CXX ON)
  set(CMAKE_CXX_STANDARD 17)
  set(CMAKE_CXX_STANDARD_REQUIRED ON)
  set(CMAKE_CXX_EXTENSIONS OFF)
endif()
