/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_part.c - decides which nodes of a file become the network. The others
 * stay the caller's.
 *
 * A file of libspconv's exporter has the sparse network, and maybe dense layers
 * after it. Files of Autoware contain a whole detector: nodes
 * that compute the features of voxels, the sparse network, and dense layers.
 * Nodes are in the order in which they run, so a node's inputs are known.
 */
#include "import/onnx_net.h"

#include "base/plural.h"
#include <stdio.h>
#include <string.h>

static bool is_any(const char *type, const char *const *types)
{
    while (*types != NULL && strcmp(*types, type) != 0)
        types++;
    return *types != NULL;
}

bool spc__onnx_is_pairs(const Spc__Pb__Node *node)
{
    static const char *const types[] = {"GetIndicePairs",
                                        "GetIndicePairsImplicitGemm", NULL};

    return is_any(node->op_type, types);
}

bool spc__onnx_is_gemm(const Spc__Pb__Node *node)
{
    static const char *const types[] = {"ImplicitGemm", "ImplicitGemmInt8",
                                        "IndiceConv", NULL};

    return is_any(node->op_type, types);
}

bool spc__onnx_is_autoware(const spc_onnx *onnx)
{
    const Spc__Pb__Graph *graph = onnx->model->graph;

    for (size_t i = 0; i < graph->n_node; i++)
        if (graph->node[i]->domain != NULL &&
            strcmp(graph->node[i]->domain, "autoware") == 0)
            return true;
    return false;
}

int spc__onnx_maker(const spc_onnx *onnx, const char *name, int *output)
{
    const Spc__Pb__Graph *graph = onnx->model->graph;

    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t j = 0; j < graph->node[i]->n_output; j++)
            if (strcmp(graph->node[i]->output[j], name) == 0) {
                *output = (int)j;
                return (int)i;
            }
    return -1;
}

/* The highest part among the makers of a node's inputs. */
static spc__onnx_part reads(const spc__onnx_builder *b,
                            const Spc__Pb__Node *node, int number)
{
    spc__onnx_part most = SPC__ONNX_APART;
    int output;

    for (size_t i = 0; i < node->n_input; i++) {
        int maker = spc__onnx_maker(b->onnx, node->input[i], &output);
        /* Tables of pairs are not rows. */
        if (maker < 0 || maker >= number ||
            spc__onnx_is_pairs(b->onnx->model->graph->node[maker]))
            continue;
        if (b->parts[maker] > most)
            most = b->parts[maker];
    }
    return most;
}

static spc__onnx_part part_of(const spc__onnx_builder *b,
                              const Spc__Pb__Node *node, int number)
{
    static const char *const of_rows[] = {
        "Add",     "QuantAdd",           "Relu", "Concat",   "ReduceSum",
        "Reshape", "BatchNormalization", "Cast", "Identity", NULL};
    static const char *const of_dense[] = {"Transpose", "Reshape", "Cast",
                                           "Identity", NULL};
    static const char *const scatter[] = {"ScatterDense", "ScatterND", NULL};
    spc__onnx_part in = reads(b, node, number);

    if (spc__onnx_is_gemm(node) || spc__onnx_is_pairs(node))
        return SPC__ONNX_IS_ROWS;
    if (in == SPC__ONNX_IS_TAIL)
        return in;
    if (strcmp(node->op_type, "Shape") == 0 && in > SPC__ONNX_APART)
        return SPC__ONNX_APART;
    if (in == SPC__ONNX_IS_DENSE)
        return is_any(node->op_type, of_dense)  ? SPC__ONNX_IS_DENSE
               : is_any(node->op_type, scatter) ? SPC__ONNX_IS_ROWS
                                                : SPC__ONNX_IS_TAIL;
    if (is_any(node->op_type, scatter) &&
        (in == SPC__ONNX_IS_ROWS || !b->is_autoware))
        return SPC__ONNX_IS_DENSE;
    /* In files of libspconv's exporter every other node must be known. */
    if (!b->is_autoware)
        return SPC__ONNX_IS_ROWS;
    return in == SPC__ONNX_APART            ? in
           : is_any(node->op_type, of_rows) ? SPC__ONNX_IS_ROWS
                                            : SPC__ONNX_IS_TAIL;
}

void spc__onnx_divide(spc__onnx_builder *b)
{
    const Spc__Pb__Graph *graph = b->onnx->model->graph;

    for (size_t i = 0; i < graph->n_node; i++)
        b->parts[i] = part_of(b, graph->node[i], (int)i);
}

bool spc__onnx_is_ours(const spc__onnx_builder *b, int node)
{
    return b->parts[node] == SPC__ONNX_IS_ROWS ||
           b->parts[node] == SPC__ONNX_IS_DENSE;
}

/* ---- the cut ------------------------------------------------------------- */

/* Lists the types of the nodes that the caller runs, each once. */
static int list_types(char *out, size_t bytes, const spc__onnx_builder *b)
{
    const Spc__Pb__Graph *graph = b->onnx->model->graph;
    size_t length = 0;
    int count = 0;

    *out = '\0';
    for (size_t i = 0; i < graph->n_node; i++) {
        char word[80];
        if (b->parts[i] != SPC__ONNX_IS_TAIL)
            continue;
        count++;
        snprintf(word, sizeof(word), "%s%.60s", length > 0 ? ", " : "",
                 graph->node[i]->op_type);
        bool is_new = strstr(out, graph->node[i]->op_type) == NULL;
        if (is_new && length + strlen(word) + 6 < bytes)
            length +=
                (size_t)snprintf(out + length, bytes - length, "%s", word);
    }
    return count;
}

/* Reports where the network begins in a file of Autoware. */
static spc_status note_start(const spc__onnx_builder *b)
{
    char text[400];

    if (!b->is_autoware)
        return SPC_OK;
    snprintf(text, sizeof(text),
             "the network begins at the features '%.80s' and the coordinates "
             "'%.80s' (batch, then %c, %c, %c): nodes before these stay the "
             "caller's",
             b->root->name, b->root_coords, b->axes[0], b->axes[1], b->axes[2]);
    return spc_net_add_note(b->net, text, b->error);
}

spc_status spc__onnx_note_cut(const spc__onnx_builder *b)
{
    char types[200], text[600], names[160] = "";
    int count = list_types(types, sizeof(types), b);
    spc_status status = note_start(b);

    if (status != SPC_OK || count == 0)
        return status;
    for (int i = 0; i < b->cut_count; i++) {
        size_t length = strlen(names);
        if (length + 60 < sizeof(names))
            snprintf(names + length, sizeof(names) - length, "%s'%.40s'",
                     i > 0 ? ", " : "", b->cuts[i]->name);
    }
    snprintf(text, sizeof(text),
             "the network ends at %s: %s behind %s (%s) %s the caller's", names,
             spc__count(count, "node"), b->cut_count == 1 ? "it" : "them",
             types, count == 1 ? "stays" : "stay");
    return spc_net_add_note(b->net, text, b->error);
}
