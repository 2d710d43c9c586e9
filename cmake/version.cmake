# SPDX-License-Identifier: Apache-2.0
# The version stands in include/spc/context.h alone. SPC_VERSION_NUMBERS: 1.0.0;
# SPC_VERSION_TEXT: 1.0.0-rc.1.
file(STRINGS include/spc/context.h lines REGEX "^#define SPC_VERSION_[A-Z]+ +[\"0-9]")
foreach(line IN LISTS lines)
  string(REGEX MATCH "SPC_VERSION_([A-Z]+) +\"?([^\"]+)" _ "${line}")
  set(SPC_VERSION_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
endforeach()
set(SPC_VERSION_NUMBERS
  ${SPC_VERSION_MAJOR}.${SPC_VERSION_MINOR}.${SPC_VERSION_PATCH})
