# SPDX-License-Identifier: Apache-2.0
# Wrong kernels that no tune may believe: on the processor, and on a GPU.
spc_suite(gate)
spc_gpu_suite(gate)
spc_slow(gate)
if(SPC_SANITIZE) # which skip slow kernels
  spc_run_suite(gate_cpu gate cpu 1 some)
endif()
# Memory that persists between launches, which the gate refuses.
spc_suite(statics)
spc_run_suite(statics_nvrtc statics nvrtc)
# Epilogues, output types, slices and bf16, with every template.
spc_suite(epilogue)
spc_gpu_suite(epilogue)
spc_run_suite(epilogue_nvrtc epilogue nvrtc)
# Integer layers.
spc_suite(int8)
spc_gpu_suite(int8)
spc_run_suite(int8_nvrtc int8 nvrtc)
# Configurations by name: groups of offsets, row orders.
spc_suite(splits)
spc_gpu_suite(splits)
spc_run_suite(splits_nvrtc splits nvrtc)
spc_slow(splits_nvrtc)
# Linear layers, which need no map.
spc_suite(linear)
spc_gpu_suite(linear)
