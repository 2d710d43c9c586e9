# Wrong kernels that no tune may believe: on the processor, and on a GPU, where
# the run counts as skipped if there is none.
spc_suite(gate)
set_tests_properties(gate PROPERTIES LABELS slow)
if(SPC_SANITIZE) # which leave out what is slow
  spc_run_suite(gate_cpu gate cpu 1)
endif()

add_test(NAME gate_gpu COMMAND test_gate cuda)
set_tests_properties(gate_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77
  ENVIRONMENT CK_TIMEOUT_MULTIPLIER=10 TIMEOUT 3600)
