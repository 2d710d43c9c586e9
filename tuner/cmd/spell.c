/* A layer spelt out whole, however long its list of offsets is. */
#include "cli.h"
#include "layers.h"

#include <stdlib.h>

char *spell_layer(const spc_conv *layer)
{
    size_t bytes = (size_t)spc_conv_format(NULL, 0, layer) + 1;
    char *text = malloc(bytes);

    if (text == NULL)
        cli_fail(SPC_ENOMEM, "out of memory");
    else
        spc_conv_format(text, bytes, layer);
    return text;
}
