/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that a host program in C++ compiles, links and runs with the installed
 * header. */
#include <spc.hpp>

#include <cstdio>

int main()
{
    auto options = spc::init<spc_ctx_options>();

    options.device = "cpu";
    options.database = "";
    try {
        spc::context ctx(options);
        auto conv = spc::parse<spc_conv>("subm,cin=4,cout=4,k=3");
        std::printf("spc %s, %d offsets\n", SPC_VERSION_TEXT,
                    spc_geometry_offset_count(&conv.geometry));
    } catch (const spc::error &e) {
        std::puts(e.what());
        return 1;
    }
}
