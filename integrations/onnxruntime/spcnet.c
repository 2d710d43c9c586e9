/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spcnet.c - the operator spctune::SpcNet for ONNX Runtime: a network of a
 * database as one node of a graph. README.md describes it.
 *
 *     SpcNet(features [N, C], coordinates [N, 4] int32, count [1] int32)
 *         -> (output, coordinates [R, 4] int32, rows [1] int32)
 *
 * `count` and the last two outputs are optional.
 */
#include "../served/served.h"

#include <onnxruntime_c_api.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char cpu[] = "CPUExecutionProvider";
static const char cuda[] = "CUDAExecutionProvider";

/* An operator of one execution provider. The runtime passes it to most
 * functions, and knows only its first member. */
typedef struct provider_op {
    OrtCustomOp op;
    const char *provider;
} provider_op;

typedef struct kernel {
    const OrtApi *api;
    served net;
    bool on_cuda;
    pthread_mutex_t lock; /* because a plan runs only once at a time */
} kernel;

static OrtStatus *failed(const OrtApi *api, const char *text)
{
    char sentence[sizeof(((spc_error *)0)->text) + 16];

    snprintf(sentence, sizeof(sentence), "SpcNet: %s", text);
    return api->CreateStatus(ORT_FAIL, sentence);
}

/* ---- attributes ---------------------------------------------------------- */

enum { TEXTS = 4, TEXT_BYTES = 1024 };

typedef struct attributes {
    char database[TEXT_BYTES], network[TEXT_BYTES], output[TEXT_BYTES];
    served_options options;
} attributes;

/* The runtime has no query for whether an optional attribute exists. Reading a
 * missing one fails and keeps the size. If the size has grown, the attribute is
 * too long. */
static bool read_text(char *out, const OrtApi *api, const OrtKernelInfo *info,
                      const char *name)
{
    size_t bytes = TEXT_BYTES;
    OrtStatus *status =
        api->KernelInfoGetAttribute_string(info, name, out, &bytes);

    if (status == NULL)
        return true;
    api->ReleaseStatus(status);
    *out = '\0';
    return bytes <= TEXT_BYTES;
}

static void read_int(int64_t *out, const OrtApi *api, const OrtKernelInfo *info,
                     const char *name)
{
    int64_t value;
    OrtStatus *status = api->KernelInfoGetAttribute_int64(info, name, &value);

    if (status == NULL)
        *out = value;
    else
        api->ReleaseStatus(status);
}

static bool read_extent(int64_t out[3], const OrtApi *api,
                        const OrtKernelInfo *info, const char *name)
{
    int64_t values[3];
    size_t count = 3;
    OrtStatus *status =
        api->KernelInfoGetAttributeArray_int64(info, name, values, &count);

    if (status == NULL && count == 3)
        memcpy(out, values, sizeof(values));
    else if (status != NULL)
        api->ReleaseStatus(status);
    return count == 3;
}

/* Returns false with a message in *error. */
static bool read_attributes(attributes *out, const OrtApi *api,
                            const OrtKernelInfo *info, spc_error *error)
{
    out->options = (served_options)SERVED_OPTIONS_INIT;
    bool texts = read_text(out->database, api, info, "database") &&
                 read_text(out->network, api, info, "network") &&
                 read_text(out->output, api, info, "output");
    out->options.database = out->database;
    out->options.network = out->network;
    out->options.output = out->output;
    read_int(&out->options.capacity, api, info, "capacity");
    read_int(&out->options.batches, api, info, "batches");
    bool extents = read_extent(out->options.low, api, info, "low") &&
                   read_extent(out->options.high, api, info, "high");
    if (!texts)
        snprintf(error->text, sizeof(error->text),
                 "'database', 'network' and 'output' may have %d bytes each",
                 TEXT_BYTES - 1);
    else if (!extents)
        snprintf(error->text, sizeof(error->text),
                 "'low' and 'high' must have three numbers each: x, y, z");
    return texts && extents;
}

/* ---- the kernel ---------------------------------------------------------- */

static OrtStatus *ORT_API_CALL create_kernel(const OrtCustomOp *op,
                                             const OrtApi *api,
                                             const OrtKernelInfo *info,
                                             void **out)
{
    kernel *k = calloc(1, sizeof(*k));
    attributes a;
    spc_error error = {SPC_OK, ""};

    *out = NULL;
    if (k == NULL)
        return failed(api, "no memory");
    k->api = api;
    k->on_cuda = ((const provider_op *)op)->provider == cuda;
    bool read = read_attributes(&a, api, info, &error);
    a.options.device = k->on_cuda ? "cuda" : "cpu";
    if (!read || served_open(&k->net, &a.options, &error) != SPC_OK) {
        served_release(&k->net);
        free(k);
        return failed(api, error.text);
    }
    pthread_mutex_init(&k->lock, NULL);
    *out = k;
    return NULL;
}

static void ORT_API_CALL destroy_kernel(void *kernel_)
{
    kernel *k = kernel_;

    served_release(&k->net);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

static ONNXTensorElementDataType element_type(spc_dtype dtype)
{
    return dtype == SPC_F16    ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16
           : dtype == SPC_BF16 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16
           : dtype == SPC_I8   ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8
                               : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

/* A tensor as it was passed; data is NULL for an omitted optional tensor. */
typedef struct tensor {
    void *data;
    ONNXTensorElementDataType type;
    int64_t shape[2];
    size_t dims;
} tensor;

static OrtStatus *read_input(tensor *out, const OrtApi *api,
                             const OrtKernelContext *context, size_t i)
{
    const OrtValue *value = NULL;
    OrtTensorTypeAndShapeInfo *info = NULL;
    OrtStatus *status = api->KernelContext_GetInput(context, i, &value);

    *out = (tensor){.data = NULL};
    if (status != NULL || value == NULL)
        return status;
    status = api->GetTensorTypeAndShape(value, &info);
    if (status == NULL)
        status = api->GetTensorElementType(info, &out->type);
    if (status == NULL)
        status = api->GetDimensionsCount(info, &out->dims);
    if (status == NULL)
        status =
            api->GetDimensions(info, out->shape, out->dims < 2 ? out->dims : 2);
    if (status == NULL)
        status = api->GetTensorMutableData((OrtValue *)value, &out->data);
    api->ReleaseTensorTypeAndShapeInfo(info);
    return status;
}

/* Returns an error message for inputs of a wrong type or shape; "" if they are
 * valid. */
static void check_inputs(char *text, size_t bytes, const kernel *k,
                         const tensor *features, const tensor *coords,
                         const tensor *count)
{
    *text = '\0';
    if (features->type != element_type(k->net.dtype))
        snprintf(text, bytes,
                 "the features have the element type %d, but the network takes "
                 "%d (1: float, 10: float16, 16: bfloat16)",
                 features->type, element_type(k->net.dtype));
    else if (features->dims != 2 || features->shape[1] != k->net.channels)
        snprintf(text, bytes,
                 "the features have %zu dimensions and %lld channels; expected "
                 "[N, %d]",
                 features->dims,
                 features->dims > 1 ? (long long)features->shape[1] : 0,
                 k->net.channels);
    else if (coords->dims != 2 || coords->shape[1] != 4 ||
             coords->shape[0] != features->shape[0])
        snprintf(text, bytes,
                 "the coordinates must be [%lld, 4]: batch, x, y, z of each "
                 "row of features",
                 (long long)features->shape[0]);
    else if (count->data != NULL &&
             (count->dims > 1 || (count->dims == 1 && count->shape[0] != 1)))
        snprintf(text, bytes, "the count must be one number");
    else if (count->data != NULL && !k->on_cuda &&
             (*(int32_t *)count->data < 0 ||
              *(int32_t *)count->data > features->shape[0]))
        snprintf(text, bytes, "the count is %d, but there are %lld rows",
                 *(int32_t *)count->data, (long long)features->shape[0]);
}

static OrtStatus *make_output(void **out, kernel *k, OrtKernelContext *context,
                              size_t i, const int64_t *shape, size_t dims)
{
    OrtValue *value = NULL;
    OrtStatus *status =
        k->api->KernelContext_GetOutput(context, i, shape, dims, &value);

    *out = NULL;
    if (status != NULL || value == NULL) /* the runtime does not request this
                                            output */
        return status;
    return k->api->GetTensorMutableData(value, out);
}

static OrtStatus *make_outputs(served_frame *frame, kernel *k,
                               OrtKernelContext *context)
{
    const int64_t coords[] = {k->net.shape[0], 4}, one[] = {1};
    size_t count = 0;
    void *data[3] = {NULL, NULL, NULL};
    OrtStatus *status = k->api->KernelContext_GetOutputCount(context, &count);

    if (status == NULL)
        status = make_output(&data[0], k, context, 0, k->net.shape,
                             (size_t)k->net.dims);
    if (status == NULL && count > 1 && k->net.output.dense)
        return failed(k->api, "a dense output has neither coordinates nor a "
                              "number of rows");
    if (status == NULL && count > 1)
        status = make_output(&data[1], k, context, 1, coords, 2);
    if (status == NULL && count > 2)
        status = make_output(&data[2], k, context, 2, one, 1);
    frame->out = data[0];
    frame->out_coords = data[1];
    frame->out_count = data[2];
    return status;
}

/* On cuda the scene is not checked, because the check would wait for the
 * device. */
static OrtStatus *run_frame(kernel *k, const served_frame *frame, void *stream)
{
    spc_error error = {SPC_OK, ""};
    spc_status status;

    pthread_mutex_lock(&k->lock);
    status = served_run(&k->net, frame, stream, &error);
    if (status == SPC_OK && !k->on_cuda &&
        spc_net_plan_check(k->net.plan, stream) != SPC_OK) {
        status = SPC_EINVAL;
        snprintf(error.text, sizeof(error.text), "%s",
                 spc_ctx_error(k->net.ctx));
    }
    pthread_mutex_unlock(&k->lock);
    return status == SPC_OK ? NULL : failed(k->api, error.text);
}

static OrtStatus *ORT_API_CALL compute(void *kernel_, OrtKernelContext *context)
{
    kernel *k = kernel_;
    tensor features, coords, count = {.data = NULL};
    size_t inputs = 0;
    void *stream = NULL;
    char text[300];
    OrtStatus *status = k->api->KernelContext_GetInputCount(context, &inputs);

    if (status == NULL)
        status = read_input(&features, k->api, context, 0);
    if (status == NULL)
        status = read_input(&coords, k->api, context, 1);
    if (status == NULL && inputs > 2)
        status = read_input(&count, k->api, context, 2);
    if (status != NULL)
        return status;
    check_inputs(text, sizeof(text), k, &features, &coords, &count);
    if (*text != '\0')
        return failed(k->api, text);
    served_frame frame = {.features = features.data,
                          .coords = coords.data,
                          .count = count.data,
                          .rows = features.shape[0]};
    if ((status = make_outputs(&frame, k, context)) != NULL)
        return status;
    if (k->on_cuda && (status = k->api->KernelContext_GetGPUComputeStream(
                           context, &stream)) != NULL)
        return status;
    return run_frame(k, &frame, stream);
}

/* ---- the operator -------------------------------------------------------- */

static const char *ORT_API_CALL get_name(const OrtCustomOp *op)
{
    (void)op;
    return "SpcNet";
}

static const char *ORT_API_CALL get_provider(const OrtCustomOp *op)
{
    return ((const provider_op *)op)->provider;
}

/* Features and outputs may have any type here: the type of the network is known
 * only when the kernel is made. */
static ONNXTensorElementDataType ORT_API_CALL get_type(const OrtCustomOp *op,
                                                       size_t i)
{
    (void)op;
    return i == 0 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED
                  : ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
}

static size_t ORT_API_CALL get_count(const OrtCustomOp *op)
{
    (void)op;
    return 3;
}

static OrtCustomOpInputOutputCharacteristic ORT_API_CALL
get_input_kind(const OrtCustomOp *op, size_t i)
{
    (void)op;
    return i < 2 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
}

static OrtCustomOpInputOutputCharacteristic ORT_API_CALL
get_output_kind(const OrtCustomOp *op, size_t i)
{
    (void)op;
    return i < 1 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
}

static OrtMemType ORT_API_CALL get_memory(const OrtCustomOp *op, size_t i)
{
    (void)op;
    (void)i;
    return OrtMemTypeDefault;
}

static int ORT_API_CALL first_version(const OrtCustomOp *op)
{
    (void)op;
    return 1;
}

static int ORT_API_CALL last_version(const OrtCustomOp *op)
{
    (void)op;
    return 1;
}

#define OP                                                                     \
    {                                                                          \
        .version = ORT_API_VERSION, .GetName = get_name,                       \
        .GetExecutionProviderType = get_provider, .GetInputType = get_type,    \
        .GetInputTypeCount = get_count, .GetOutputType = get_type,             \
        .GetOutputTypeCount = get_count, .KernelDestroy = destroy_kernel,      \
        .GetInputCharacteristic = get_input_kind,                              \
        .GetOutputCharacteristic = get_output_kind,                            \
        .GetInputMemoryType = get_memory, .CreateKernelV2 = create_kernel,     \
        .KernelComputeV2 = compute, .GetStartVersion = first_version,          \
        .GetEndVersion = last_version                                          \
    }

static const provider_op ops[] = {{OP, cpu}, {OP, cuda}};

/* ONNX Runtime looks up this function in a library of operators. The session
 * options take ownership of the domain. */
ORT_EXPORT OrtStatus *ORT_API_CALL RegisterCustomOps(OrtSessionOptions *options,
                                                     const OrtApiBase *base);

OrtStatus *ORT_API_CALL RegisterCustomOps(OrtSessionOptions *options,
                                          const OrtApiBase *base)
{
    const OrtApi *api = base->GetApi(ORT_API_VERSION);
    OrtCustomOpDomain *domain = NULL;

    if (api == NULL) {
        const OrtApi *first = base->GetApi(1);
        return first == NULL
                   ? NULL
                   : failed(first, "this ONNX Runtime is older than the header "
                                   "that the operator was compiled with");
    }
    OrtStatus *status = api->CreateCustomOpDomain("spctune", &domain);
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops) && status == NULL; i++)
        status = api->CustomOpDomain_Add(domain, &ops[i].op);
    if (status == NULL)
        status = api->AddCustomOpDomain(options, domain);
    return status;
}
