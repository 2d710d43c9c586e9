/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that a host program compiles, links and runs with the installed files,
 * as C and as C++. */
#include <spc.h>

#include <stdio.h>

int main(void)
{
    spc_error error = {SPC_OK, ""};
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx;
    spc_conv conv;

    options.device = "cpu";
    options.database = "";
    if (spc_conv_parse(&conv, "subm,cin=4,cout=4,k=3", &error) != SPC_OK ||
        spc_ctx_create(&ctx, &options, &error) != SPC_OK)
        return puts(error.text), 1;
    printf("spc %s, %d offsets\n", SPC_VERSION_TEXT,
           spc_geometry_offset_count(&conv.geometry));
    spc_ctx_free(ctx);
    return 0;
}
