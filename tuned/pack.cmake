# SPDX-License-Identifier: Apache-2.0
# cmake -DSPCTUNE=command -DTEXT=nvidia-h200.txt -DPACK=nvidia-h200.db
#       [-DTARGETS=sm_90a] -P pack.cmake
#
# No other database takes part, nor what shipped before.
set(ENV{SPC_DATABASE} "")
set(ENV{SPC_SHIPPED} "")
set(ENV{SPC_CONFIG} "")
get_filename_component(folder ${PACK} DIRECTORY)
get_filename_component(name ${TEXT} NAME)
file(MAKE_DIRECTORY ${folder})
set(part ${PACK}.part.db)
file(REMOVE ${part} ${part}-wal ${part}-shm)
execute_process(COMMAND ${SPCTUNE} -q --database ${part} db import ${TEXT}
  OUTPUT_VARIABLE taken COMMAND_ERROR_IS_FATAL ANY)
# The last line counts what became of the records; those above name them.
string(REGEX MATCH "[^\n/]*: [0-9]+ accepted[^\n]*" counts "${taken}")
if(TARGETS)
  # What a template takes no more is passed over, and stays without code.
  execute_process(COMMAND ${SPCTUNE} -q --device cpu --database ${part}
    build --choices --target ${TARGETS} OUTPUT_QUIET)
endif()
execute_process(COMMAND ${SPCTUNE} -q --database ${part} db pack ${PACK}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE ${part} ${part}-wal ${part}-shm)
# Without code the manifest has nothing to name but this file.
message(STATUS "${counts}")
