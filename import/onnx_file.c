/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_file.c - reads ONNX files: texts, attributes, arrays. */
#include "import/onnx_file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/plural.h"
#include "import/array.h"
#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Far more than real networks have. It also limits later steps that take
 * quadratic time. */
enum { NODES_MOST = 4096 };

/* Sums broadcast by position since version 7, and up to 23 the attributes of
 * the supported nodes keep their meaning. After 12 ReduceSum may have its axes
 * as an input; the node refuses that. */
enum { OPSET_LEAST = 7, OPSET_MOST = 23 };

/* The supported element types of onnx-ml.proto. */
enum { ONNX_FLOAT = 1, ONNX_FLOAT16 = 10 };

/* ---- texts --------------------------------------------------------------- */

static bool is_plain(const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static bool are_plain(char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_plain(texts[i]))
            return false;
    return true;
}

static bool node_is_plain(const Spc__Pb__Node *node)
{
    bool is = is_plain(node->name) && is_plain(node->op_type) &&
              is_plain(node->domain) && are_plain(node->input, node->n_input) &&
              are_plain(node->output, node->n_output);

    for (size_t i = 0; i < node->n_attribute; i++)
        is = is && is_plain(node->attribute[i]->name);
    return is;
}

/* False if a name has control characters, which messages would print. */
static bool graph_is_plain(const Spc__Pb__Graph *graph)
{
    bool is = is_plain(graph->name);

    for (size_t i = 0; i < graph->n_node; i++)
        is = is && node_is_plain(graph->node[i]);
    for (size_t i = 0; i < graph->n_initializer; i++)
        is = is && is_plain(graph->initializer[i]->name);
    for (size_t i = 0; i < graph->n_input; i++)
        is = is && is_plain(graph->input[i]->name);
    for (size_t i = 0; i < graph->n_output; i++)
        is = is && is_plain(graph->output[i]->name);
    return is;
}

/* ---- arrays -------------------------------------------------------------- */

static spc_status bad_array(const spc_onnx *onnx, const char *name,
                            const char *what, spc_error *error)
{
    return spc__fail(error, SPC_EFORMAT, "cannot read '%s': array '%s' %s",
                     onnx->path, name, what);
}

/* Reads the shape. The product is checked here, before any size is computed
 * from it. */
static spc_status read_dims(spc_array *out, const spc_onnx *onnx,
                            const Spc__Pb__Tensor *pb, spc_error *error)
{
    if (pb->n_dims > SPC_ARRAY_RANK)
        return bad_array(onnx, out->name, "has more than 8 dimensions", error);
    out->rank = (int)pb->n_dims;
    for (size_t i = 0; i < pb->n_dims; i++)
        out->shape[i] = pb->dims[i];
    if (!spc__array_measure(out))
        return bad_array(onnx, out->name,
                         "has dimensions that cannot be: below 0, or a product "
                         "past 64 bits",
                         error);
    return SPC_OK;
}

/* The data must fill the shape exactly. */
static spc_status check_bytes(const spc_onnx *onnx, const spc_array *array,
                              size_t have, spc_error *error)
{
    char shape[256];

    if (have == array->bytes)
        return SPC_OK;
    spc__array_print_shape(shape, sizeof(shape), array);
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': array '%s' has %zu bytes of data; its "
                     "shape %s takes %zu",
                     onnx->path, array->name, have, shape, array->bytes);
}

/* Halves may be stored one in each int32. */
static spc_status read_halves(spc_array *out, void **decoded,
                              const spc_onnx *onnx, const Spc__Pb__Tensor *pb,
                              spc_error *error)
{
    uint16_t *halves;
    spc_status status = check_bytes(onnx, out, 2 * pb->n_int32_data, error);

    if (status != SPC_OK)
        return status;
    if ((halves = malloc(out->bytes + 1)) == NULL)
        return spc__fail_memory(error, out->bytes);
    *decoded = halves;
    out->data = halves;
    for (size_t i = 0; i < pb->n_int32_data; i++)
        halves[i] = (uint16_t)pb->int32_data[i];
    return SPC_OK;
}

/* Finds the data, which ONNX has as raw bytes or in typed fields. Half numbers
 * in a typed field take 32 bits each, so they are decoded. */
static spc_status read_elements(spc_array *out, void **decoded,
                                const spc_onnx *onnx, const Spc__Pb__Tensor *pb,
                                spc_error *error)
{
    if (pb->has_raw_data) {
        out->data = pb->raw_data.data;
        return check_bytes(onnx, out, pb->raw_data.len, error);
    }
    if (pb->data_type == ONNX_FLOAT16)
        return read_halves(out, decoded, onnx, pb, error);
    out->data = pb->float_data;
    return check_bytes(onnx, out, 4 * pb->n_float_data, error);
}

/* Reads one array of weights. */
static spc_status read_array(spc_array *out, void **decoded,
                             const spc_onnx *onnx, const Spc__Pb__Tensor *pb,
                             spc_error *error)
{
    spc_status status;

    out->name = pb->name != NULL ? pb->name : "";
    out->file = onnx->path;
    if (pb->n_external_data > 0 || pb->data_location != 0)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "cannot read '%s': array '%s' is in another file: "
                         "save the model with its weights inside",
                         onnx->path, out->name);
    if (pb->data_type != ONNX_FLOAT && pb->data_type != ONNX_FLOAT16)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "cannot read '%s': array '%s' has elements of type "
                         "%d: 1 (float) and 10 (float16) are read",
                         onnx->path, out->name, pb->data_type);
    out->type = pb->data_type == ONNX_FLOAT ? SPC_ELEMENT_F32 : SPC_ELEMENT_F16;
    if ((status = read_dims(out, onnx, pb, error)) != SPC_OK)
        return status;
    return read_elements(out, decoded, onnx, pb, error);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Refuses duplicate names, as it is unclear which array is meant. */
static spc_status check_names(const spc_onnx *onnx, spc_error *error)
{
    size_t count = onnx->model->graph->n_initializer;
    const char **names = malloc((count + 1) * sizeof(*names));
    spc_status status = SPC_OK;

    if (names == NULL)
        return spc__fail_memory(error, count * sizeof(*names));
    for (size_t i = 0; i < count; i++)
        names[i] = onnx->arrays[i].name;
    /* Sorts the names, as a file may have thousands of arrays: comparing all
     * pairs would take long. */
    qsort(names, count, sizeof(*names), compare_names);
    for (size_t i = 1; i < count && status == SPC_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = bad_array(onnx, names[i], "occurs twice", error);
    free(names);
    return status;
}

/*
 * True for an array of a type that is not read here, if only nodes without
 * weights read it, as shapes that a Reshape reads.
 */
static bool is_of_others(const Spc__Pb__Graph *graph, const Spc__Pb__Tensor *pb)
{
    static const char *const weighted[] = {"SparseConvolution", "ImplicitGemm",
                                           "ImplicitGemmInt8", "IndiceConv",
                                           "BatchNormalization"};
    bool is_read = false;

    if (pb->name == NULL || pb->data_type == ONNX_FLOAT ||
        pb->data_type == ONNX_FLOAT16)
        return false;
    for (size_t n = 0; n < graph->n_node; n++)
        for (size_t i = 0; i < graph->node[n]->n_input; i++) {
            if (strcmp(graph->node[n]->input[i], pb->name) != 0)
                continue;
            is_read = true;
            for (size_t t = 0; t < sizeof(weighted) / sizeof(*weighted); t++)
                if (strcmp(graph->node[n]->op_type, weighted[t]) == 0)
                    return false;
        }
    return is_read;
}

/* Reads all arrays. The data stays in the model, and is not copied. */
static spc_status read_arrays(spc_onnx *onnx, spc_error *error)
{
    const Spc__Pb__Graph *graph = onnx->model->graph;
    size_t count = graph->n_initializer;
    spc_status status = SPC_OK;

    onnx->arrays = calloc(count + 1, sizeof(*onnx->arrays));
    onnx->decoded = calloc(count + 1, sizeof(*onnx->decoded));
    if (onnx->arrays == NULL || onnx->decoded == NULL)
        return spc__fail_memory(error, count * sizeof(*onnx->arrays));
    for (size_t i = 0; i < count && status == SPC_OK; i++)
        if (is_of_others(graph, graph->initializer[i]))
            /* Its name only: the nodes that read it do not need its
             * elements. */
            onnx->arrays[i].name = graph->initializer[i]->name;
        else
            status = read_array(&onnx->arrays[i], &onnx->decoded[i], onnx,
                                graph->initializer[i], error);
    return status == SPC_OK ? check_names(onnx, error) : status;
}

const spc_array *spc__onnx_array(const spc_onnx *onnx, const char *name)
{
    for (size_t i = 0; i < onnx->model->graph->n_initializer; i++)
        if (strcmp(onnx->arrays[i].name, name) == 0)
            return &onnx->arrays[i];
    return NULL;
}

/* ---- the file ------------------------------------------------------------ */

static spc_status bad(const spc_onnx *onnx, spc_error *error, const char *what)
{
    return spc__fail(error, SPC_EFORMAT, "cannot read '%s': %s", onnx->path,
                     what);
}

/* A node has some twenty attributes, so comparing all pairs is fast enough. */
static spc_status check_attributes(const spc__onnx_node *node)
{
    enum { MOST = 100 };
    size_t count = node->pb->n_attribute;
    Spc__Pb__Attribute *const *all = node->pb->attribute;

    if (count > MOST)
        return spc__onnx_fail(node, SPC_EFORMAT, "has more than %d attributes",
                              MOST);
    for (size_t a = 0; a < count; a++) {
        if (all[a]->name == NULL)
            return spc__onnx_fail(node, SPC_EFORMAT,
                                  "has an attribute without a name");
        for (size_t before = 0; before < a; before++)
            if (strcmp(all[before]->name, all[a]->name) == 0)
                return spc__onnx_fail(node, SPC_EFORMAT,
                                      "has the attribute '%.60s' twice",
                                      all[a]->name);
    }
    return SPC_OK;
}

/* A message may leave out any field: those that later code reads without a test
 * are checked here. */
static spc_status check_node(const spc_onnx *onnx, int i, spc_error *error)
{
    spc__onnx_node node = spc__onnx_node_at(onnx, i, error);

    if (node.pb->op_type == NULL)
        return spc__onnx_fail(&node, SPC_EFORMAT, "has no type");
    if (node.pb->n_output == 0)
        return spc__onnx_fail(&node, SPC_EFORMAT,
                              "has 0 outputs: expected one");
    return check_attributes(&node);
}

/* Checks the graph as a whole, so that building needs no such test. */
static spc_status check_graph(const spc_onnx *onnx, spc_error *error)
{
    const Spc__Pb__Graph *graph = onnx->model->graph;
    spc_status status = SPC_OK;

    if (graph == NULL)
        return bad(onnx, error, "it has no graph");
    if (graph->n_node > NODES_MOST)
        return bad(onnx, error, "its graph has more than 4096 nodes");
    if (!graph_is_plain(graph))
        return bad(onnx, error, "a name in it has control characters");
    for (size_t i = 0; i < graph->n_input; i++)
        if (graph->input[i]->name == NULL)
            return bad(onnx, error, "an input of its graph has no name");
    for (size_t i = 0; i < graph->n_output; i++)
        if (graph->output[i]->name == NULL)
            return bad(onnx, error, "an output of its graph has no name");
    for (size_t i = 0; i < graph->n_node && status == SPC_OK; i++)
        status = check_node(onnx, (int)i, error);
    return status;
}

/* Autoware's exporters write version 1 of their domain. Nodes of other custom
 * domains are defined by the exporter, so their version is not checked. */
static spc_status check_opsets(const spc_onnx *onnx, spc_error *error)
{
    for (size_t i = 0; i < onnx->model->n_opset_import; i++) {
        const Spc__Pb__Opset *opset = onnx->model->opset_import[i];
        const char *domain = opset->domain != NULL ? opset->domain : "";
        if ((domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0) &&
            (opset->version < OPSET_LEAST || opset->version > OPSET_MOST))
            return spc__fail(
                error, SPC_EUNSUPPORTED,
                "cannot read '%s': its nodes are those of opset "
                "%lld: %d to %d are known; export it with one of those",
                onnx->path, (long long)opset->version, OPSET_LEAST, OPSET_MOST);
        if (strcmp(domain, "autoware") == 0 && opset->version != 1)
            return spc__fail(error, SPC_EUNSUPPORTED,
                             "cannot read '%s': its domain 'autoware' has "
                             "version %lld: 1 is known",
                             onnx->path, (long long)opset->version);
    }
    return SPC_OK;
}

/* protobuf-c does not report why it failed; this records a failed
 * allocation. */
static void *allocate(void *failed, size_t bytes)
{
    void *memory = malloc(bytes);

    *(bool *)failed |= memory == NULL;
    return memory;
}

static void release(void *failed, void *memory)
{
    (void)failed;
    free(memory);
}

/* Unpacks the message. Protobuf-c reports no cause, so our allocator notes if
 * memory was it. */
static spc_status unpack(spc_onnx *onnx, const void *data, size_t bytes,
                         spc_error *error)
{
    bool failed = false;
    ProtobufCAllocator allocator = {allocate, release, &failed};

    onnx->model = spc__pb__model__unpack(&allocator, bytes, data);
    if (onnx->model != NULL)
        return SPC_OK;
    return failed ? spc__fail_memory(error, bytes)
                  : bad(onnx, error,
                        "it is not an ONNX model, or it is truncated");
}

spc_status spc__onnx_read(spc_onnx **out, const char *path, const void *data,
                          size_t bytes, spc_error *error)
{
    spc_onnx *onnx = calloc(1, sizeof(*onnx));
    spc_status status;

    *out = NULL;
    if (onnx == NULL || (onnx->path = strdup(path)) == NULL) {
        free(onnx);
        return spc__fail_memory(error, sizeof(*onnx));
    }
    /* The graph is checked first: the steps after that read its fields without
     * tests. */
    status = unpack(onnx, data, bytes, error);
    if (status == SPC_OK)
        status = check_graph(onnx, error);
    if (status == SPC_OK)
        status = check_opsets(onnx, error);
    if (status == SPC_OK)
        status = read_arrays(onnx, error);
    if (status == SPC_OK) {
        *out = onnx;
        onnx = NULL;
    }
    spc_onnx_free(onnx);
    return status;
}

spc_status spc_onnx_open(spc_onnx **out, const char *path, spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "out", out, "path", path, NULL);
    spc__buf data = SPC__BUF_INIT;

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    /* A protobuf message has at most INT_MAX bytes. */
    status = spc__file_read(&data, path, INT_MAX, error);
    if (status == SPC_OK)
        status = spc__onnx_read(out, path, data.data, data.length, error);
    spc__buf_release(&data);
    return status;
}

void spc_onnx_free(spc_onnx *onnx)
{
    if (onnx == NULL)
        return;
    size_t count =
        onnx->decoded != NULL ? onnx->model->graph->n_initializer : 0;
    for (size_t i = 0; i < count; i++)
        free(onnx->decoded[i]);
    free(onnx->decoded);
    free(onnx->arrays);
    if (onnx->model != NULL)
        spc__pb__model__free_unpacked(onnx->model, NULL);
    free(onnx->path);
    free(onnx);
}

/* ---- nodes --------------------------------------------------------------- */

spc__onnx_node spc__onnx_node_at(const spc_onnx *onnx, int i, spc_error *error)
{
    assert(i >= 0 && (size_t)i < onnx->model->graph->n_node);
    return (spc__onnx_node){onnx, onnx->model->graph->node[i], i, error};
}

spc_status spc__onnx_fail(const spc__onnx_node *node, spc_status status,
                          const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return spc__fail(
        node->error, status, "cannot read '%s': node %d ('%.60s', %.60s) %s",
        node->onnx->path, node->number,
        node->pb->name != NULL ? node->pb->name : "",
        node->pb->op_type != NULL ? node->pb->op_type : "no type", text);
}

/* ---- attributes ---------------------------------------------------------- */

static const Spc__Pb__Attribute *find(const spc__onnx_node *node,
                                      const char *name)
{
    for (size_t i = 0; i < node->pb->n_attribute; i++)
        if (strcmp(node->pb->attribute[i]->name, name) == 0)
            return node->pb->attribute[i];
    return NULL;
}

bool spc__onnx_has(const spc__onnx_node *node, const char *name)
{
    return find(node, name) != NULL;
}

static spc_status fail_kind(const spc__onnx_node *node, const char *name,
                            const char *right)
{
    return spc__onnx_fail(node, SPC_EFORMAT,
                          "has an attribute '%s' that is not %s", name, right);
}

static bool fits(int64_t value)
{
    return value >= INT_MIN && value <= INT_MAX;
}

spc_status spc__onnx_int(const spc__onnx_node *node, int *out, const char *name)
{
    const Spc__Pb__Attribute *found = find(node, name);

    if (found == NULL)
        return SPC_OK;
    if (!found->has_i || !fits(found->i))
        return fail_kind(node, name, "a whole number");
    *out = (int)found->i;
    return SPC_OK;
}

spc_status spc__onnx_float(const spc__onnx_node *node, float *out,
                           const char *name)
{
    const Spc__Pb__Attribute *found = find(node, name);

    if (found == NULL)
        return SPC_OK;
    if (!found->has_f)
        return fail_kind(node, name, "a number");
    *out = found->f;
    return SPC_OK;
}

spc_status spc__onnx_ints(const spc__onnx_node *node, int *out, int count,
                          const char *name)
{
    const Spc__Pb__Attribute *found = find(node, name);

    if (found == NULL)
        return SPC_OK;
    bool is_right = found->n_ints == (size_t)count;
    for (int i = 0; i < count && is_right; i++)
        is_right = fits(found->ints[i]);
    if (!is_right)
        return spc__onnx_fail(node, SPC_EFORMAT,
                              "has an attribute '%s' that is not %d whole "
                              "numbers",
                              name, count);
    for (int i = 0; i < count; i++)
        out[i] = (int)found->ints[i];
    return SPC_OK;
}

const int64_t *spc__onnx_list(const spc__onnx_node *node, int *count,
                              const char *name)
{
    const Spc__Pb__Attribute *found = find(node, name);

    if (found == NULL || found->n_ints == 0 || found->n_ints > SPC_ARRAY_RANK)
        return NULL;
    *count = (int)found->n_ints;
    return found->ints;
}

spc_status spc__onnx_text(const spc__onnx_node *node, char *out, size_t bytes,
                          const char *name)
{
    const Spc__Pb__Attribute *found = find(node, name);

    if (found == NULL)
        return SPC_OK;
    if (!found->has_s || found->s.len >= bytes)
        return fail_kind(node, name, "a short text");
    if (found->s.len > 0)
        memcpy(out, found->s.data, found->s.len);
    out[found->s.len] = '\0';
    return is_plain(out) ? SPC_OK : fail_kind(node, name, "a plain text");
}
