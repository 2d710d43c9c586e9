/* SPDX-License-Identifier: Apache-2.0 */
/* fake_driver.h - loads the double of the CUDA driver into a test. */
#ifndef SPC_TESTS_FAKE_DRIVER_H
#define SPC_TESTS_FAKE_DRIVER_H

#include "harness/fake_cuda.h"
#include "harness/suite.h"
#include <dlfcn.h>
#include <stdlib.h>

static fake_cuda *fake;

/* Loads the double for the test itself, independently of the code under test,
 * and names the double of NVRTC. Needs LD_LIBRARY_PATH, as ctest sets it. */
static inline void load_fake_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    ck_assert_msg(driver != NULL, "%s", dlerror());
    fake = dlsym(driver, "the_fake_cuda");
    ck_assert_msg(fake != NULL, "this driver is not the double: run by ctest");
    setenv("SPC_NVRTC", SPC_TEST_NVRTC, 1);
}

#endif
