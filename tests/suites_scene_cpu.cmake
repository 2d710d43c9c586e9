spc_suite(scene)
spc_suite(oracle)
spc_suite(sample)
spc_suite(cpu)

# Figures for docs/PERFORMANCE.md; built, not run. The naive loop is at -O2.
add_executable(bench_cpu bench_cpu.c)
target_link_libraries(bench_cpu PRIVATE spc_internal)
target_compile_options(bench_cpu PRIVATE -O2)
