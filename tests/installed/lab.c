/* SPDX-License-Identifier: Apache-2.0 */
/* A host program that uses libspclab. */
#include <spc.h>
#include <spc/lab.h>

#include <stdio.h>

int main(void)
{
    spc_error error = {SPC_OK, ""};
    spc_scene *scene;

    if (spc_scene_load(&scene, "gen:shell,r=16", &error) != SPC_OK)
        return puts(error.text), 1;
    printf("%lld voxels\n", (long long)spc_scene_rows(scene));
    spc_scene_free(scene);
    return 0;
}
