/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spcnet.cpp - SpcNet, a plugin of TensorRT (IPluginV3): a network of a
 * database as one layer of an engine. README.md describes it.
 *
 *     SpcNet(features [N, C], coordinates [N, 4] int32, count [1] int32)
 *         -> the output of a bev layer or another dense one, or
 *            rows [R, elements], coordinates [R, 4] int32, count [1] int32
 *
 * The network is opened once when the engine is built, to learn its shapes, and
 * again for each execution context, because a plan runs one frame at a time.
 */
#include "../served/served.h"

#include <NvInferRuntime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

using namespace nvinfer1;

namespace
{

constexpr char plugin_name[] = "SpcNet", plugin_version[] = "1";

ILoggerFinder *logger_finder; /* TensorRT sets it once, after loading */

/* Writes a message to TensorRT's log, or to standard error if there is no
 * log. */
void report(const char *text) noexcept
{
    ILogger *logger = logger_finder ? logger_finder->findLogger() : nullptr;
    std::string sentence = std::string("SpcNet: ") + text;

    if (logger != nullptr)
        logger->log(ILogger::Severity::kERROR, sentence.c_str());
    else
        std::fprintf(stderr, "%s\n", sentence.c_str());
}

/* ---- fields -------------------------------------------------------------- */

/* The fields of a layer. An engine file stores them. */
struct settings {
    std::string database, network, output, device = "cuda";
    std::string pack; /* bytes of the embedded database; "": not embedded */
    std::int64_t capacity = 0, batches = 1, embed = 0;
    std::int64_t low[3] = {0, 0, 0}, high[3] = {0, 0, 0};
};

/* A field has `length` numbers, or `length` characters of text. */
struct text_field {
    const char *name;
    std::string settings::*member;
};
const text_field text_fields[] = {
    {"database", &settings::database}, {"network", &settings::network},
    {"output", &settings::output},     {"device", &settings::device},
    {"pack", &settings::pack},
};

struct number_field {
    const char *name;
    int count;
    std::int64_t *(*member)(settings &);
};
const number_field number_fields[] = {
    {"capacity", 1, [](settings &s) { return &s.capacity; }},
    {"batches", 1, [](settings &s) { return &s.batches; }},
    {"embed", 1, [](settings &s) { return &s.embed; }},
    {"low", 3, [](settings &s) { return s.low; }},
    {"high", 3, [](settings &s) { return s.high; }},
};

bool read_numbers(settings &s, const number_field &to, const PluginField &from,
                  std::string &sentence)
{
    std::int64_t *out = to.member(s);

    if (from.length != to.count || from.data == nullptr) {
        sentence = std::string("the field '") + to.name + "' must have " +
                   std::to_string(to.count) + " numbers";
        return false;
    }
    for (int i = 0; i < to.count; i++)
        if (from.type == PluginFieldType::kINT64)
            out[i] = static_cast<const std::int64_t *>(from.data)[i];
        else if (from.type == PluginFieldType::kINT32)
            out[i] = static_cast<const std::int32_t *>(from.data)[i];
        else {
            sentence = std::string("the field '") + to.name +
                       "' must be of whole numbers";
            return false;
        }
    return true;
}

bool read_field(settings &s, const PluginField &from, std::string &sentence)
{
    for (const auto &to : text_fields)
        if (std::strcmp(from.name, to.name) == 0) {
            const char *text = static_cast<const char *>(from.data);
            std::size_t length =
                text != nullptr ? static_cast<std::size_t>(from.length) : 0;
            /* Some callers count the terminating zero. A pack may contain any
             * bytes. */
            if (to.member != &settings::pack && length > 0)
                length = strnlen(text, length);
            (s.*to.member).assign(text != nullptr ? text : "", length);
            return true;
        }
    for (const auto &to : number_fields)
        if (std::strcmp(from.name, to.name) == 0)
            return read_numbers(s, to, from, sentence);
    sentence = std::string("there is no field '") + from.name + "'";
    return false;
}

/* ---- an opened network --------------------------------------------------- */

/* A copy of an embedded database, in a separate folder for the life of this
 * object, because SQLite creates files next to it. */
class unpacked
{
  public:
    unpacked() = default;
    unpacked(const unpacked &) = delete;
    unpacked &operator=(const unpacked &) = delete;
    ~unpacked()
    {
        std::error_code ignored;
        if (!folder_.empty())
            std::filesystem::remove_all(folder_, ignored);
    }
    bool write(const std::string &bytes)
    {
        const char *top = std::getenv("TMPDIR");
        std::string folder =
            std::string(top != nullptr ? top : "/tmp") + "/spcnet-XXXXXX";
        if (mkdtemp(&folder[0]) == nullptr)
            return false;
        folder_ = folder;
        std::ofstream to(path(), std::ios::binary);
        to.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        to.close();
        return !to.fail();
    }
    std::string path() const
    {
        return folder_ + "/embedded.db";
    }

  private:
    std::string folder_;
};

class instance
{
  public:
    instance() = default;
    instance(const instance &) = delete;
    instance &operator=(const instance &) = delete;
    ~instance()
    {
        served_release(&net);
    }
    bool open(const settings &s)
    {
        served_options options = SERVED_OPTIONS_INIT;
        spc_error error = {SPC_OK, ""};

        if (!s.pack.empty() && !copy_.write(s.pack)) {
            report("the embedded database could not be written to $TMPDIR");
            return false;
        }
        const std::string path = s.pack.empty() ? s.database : copy_.path();
        options.database = path.c_str();
        options.network = s.network.c_str();
        options.output = s.output.c_str();
        options.device = s.device.c_str();
        options.capacity = s.capacity;
        options.batches = s.batches;
        std::memcpy(options.low, s.low, sizeof(s.low));
        std::memcpy(options.high, s.high, sizeof(s.high));
        if (served_open(&net, &options, &error) != SPC_OK) {
            report(error.text);
            return false;
        }
        return true;
    }
    served net{};

  private:
    unpacked copy_; /* removed after the network is released */
};

DataType type_of(spc_dtype dtype)
{
    return dtype == SPC_F16    ? DataType::kHALF
           : dtype == SPC_BF16 ? DataType::kBF16
           : dtype == SPC_I8   ? DataType::kINT8
                               : DataType::kFLOAT;
}

/* ---- the plugin ---------------------------------------------------------- */

class SpcNet final : public IPluginV3,
                     public IPluginV3OneCore,
                     public IPluginV3OneBuild,
                     public IPluginV3OneRuntime
{
  public:
    SpcNet(const settings &s, std::shared_ptr<instance> opened)
        : s_(s), opened_(std::move(opened))
    {
    }

    IPluginCapability *
    getCapabilityInterface(PluginCapabilityType type) noexcept override
    {
        if (type == PluginCapabilityType::kBUILD)
            return static_cast<IPluginV3OneBuild *>(this);
        if (type == PluginCapabilityType::kRUNTIME)
            return static_cast<IPluginV3OneRuntime *>(this);
        return static_cast<IPluginV3OneCore *>(this);
    }
    IPluginV3 *clone() noexcept override
    try {
        return new SpcNet(s_, opened_);
    } catch (...) {
        return nullptr;
    }

    AsciiChar const *getPluginName() const noexcept override
    {
        return plugin_name;
    }
    AsciiChar const *getPluginVersion() const noexcept override
    {
        return plugin_version;
    }
    AsciiChar const *getPluginNamespace() const noexcept override
    {
        return "";
    }

    /* -- build -- */

    int32_t getNbOutputs() const noexcept override
    {
        return opened_ == nullptr || net().output.dense ? 1 : 3;
    }
    int32_t configurePlugin(DynamicPluginTensorDesc const *in, int32_t inputs,
                            DynamicPluginTensorDesc const *,
                            int32_t) noexcept override
    {
        return inputs == 3 ? check_rows(in[0].max, in[1].max) : wrong_inputs();
    }
    int32_t getOutputDataTypes(DataType *out, int32_t outputs, DataType const *,
                               int32_t) const noexcept override
    {
        if (opened_ == nullptr || outputs != getNbOutputs())
            return 1;
        for (int32_t i = 0; i < outputs; i++)
            out[i] = i == 0 ? type_of(net().output.dtype) : DataType::kINT32;
        return 0;
    }
    int32_t getOutputShapes(DimsExprs const *, int32_t inputs,
                            DimsExprs const *, int32_t, DimsExprs *out,
                            int32_t outputs,
                            IExprBuilder &expressions) noexcept override
    {
        if (inputs != 3)
            return wrong_inputs();
        if (opened_ == nullptr || outputs != getNbOutputs())
            return 1;
        out[0].nbDims = net().dims;
        for (int i = 0; i < net().dims; i++)
            out[0].d[i] = expressions.constant(net().shape[i]);
        if (outputs == 3) {
            out[1].nbDims = 2;
            out[1].d[0] = expressions.constant(net().shape[0]);
            out[1].d[1] = expressions.constant(4);
            out[2].nbDims = 1;
            out[2].d[0] = expressions.constant(1);
        }
        return 0;
    }
    /* Tensors are numbered through inputs and outputs: 0 and 3 have the
     * network's types, all others are int32. */
    bool supportsFormatCombination(int32_t pos,
                                   DynamicPluginTensorDesc const *tensors,
                                   int32_t, int32_t) noexcept override
    {
        if (opened_ == nullptr)
            return false;
        const DataType type = pos == 0   ? type_of(net().dtype)
                              : pos == 3 ? type_of(net().output.dtype)
                                         : DataType::kINT32;
        return tensors[pos].desc.type == type &&
               tensors[pos].desc.format == TensorFormat::kLINEAR;
    }

    /* -- run -- */

    int32_t onShapeChange(PluginTensorDesc const *in, int32_t inputs,
                          PluginTensorDesc const *, int32_t) noexcept override
    {
        return inputs == 3 ? check_rows(in[0].dims, in[1].dims)
                           : wrong_inputs();
    }
    /* Only enqueues, so a CUDA graph may capture the call. */
    int32_t enqueue(PluginTensorDesc const *in, PluginTensorDesc const *,
                    void const *const *inputs, void *const *outputs, void *,
                    cudaStream_t stream) noexcept override
    {
        spc_error error = {SPC_OK, ""};
        served_frame frame = {};

        if (opened_ == nullptr) {
            report("enqueue without an execution context");
            return 1;
        }
        frame.features = inputs[0];
        frame.coords = static_cast<const std::int32_t *>(inputs[1]);
        frame.count = static_cast<const std::int32_t *>(inputs[2]);
        frame.rows = in[0].dims.d[0];
        frame.out = outputs[0];
        if (!net().output.dense) {
            frame.out_coords = static_cast<std::int32_t *>(outputs[1]);
            frame.out_count = static_cast<std::int32_t *>(outputs[2]);
        }
        if (served_run(&opened_->net, &frame, stream, &error) == SPC_OK)
            return 0;
        report(error.text);
        return 1;
    }
    IPluginV3 *attachToContext(IPluginResourceContext *) noexcept override
    try {
        auto own = std::make_shared<instance>();
        return own->open(s_) ? new SpcNet(s_, std::move(own)) : nullptr;
    } catch (...) {
        return nullptr;
    }
    PluginFieldCollection const *getFieldsToSerialize() noexcept override
    try {
        if (s_.embed != 0 && s_.pack.empty() && !read_pack())
            return nullptr;
        fields_.clear();
        for (const auto &f : text_fields)
            fields_.emplace_back(f.name, (s_.*f.member).data(),
                                 PluginFieldType::kCHAR,
                                 static_cast<int32_t>((s_.*f.member).size()));
        for (const auto &f : number_fields)
            fields_.emplace_back(f.name, f.member(s_), PluginFieldType::kINT64,
                                 f.count);
        collection_.nbFields = static_cast<int32_t>(fields_.size());
        collection_.fields = fields_.data();
        return &collection_;
    } catch (...) {
        return nullptr;
    }

  private:
    const served &net() const
    {
        return opened_->net;
    }
    static int32_t wrong_inputs() noexcept
    {
        report("the inputs must be features, coordinates and a count");
        return 1;
    }
    /* Writes the number of rows of a profile or a frame. */
    int32_t check_rows(const Dims &features, const Dims &coords) const noexcept
    {
        char text[200];

        if (opened_ == nullptr)
            return 1;
        if (features.nbDims == 2 && features.d[1] == net().channels &&
            features.d[0] <= net().capacity && coords.nbDims == 2 &&
            coords.d[0] == features.d[0] && coords.d[1] == 4)
            return 0;
        std::snprintf(text, sizeof(text),
                      "expected features [N, %d] and coordinates [N, 4] with N "
                      "up to the capacity %lld, but they have %lld and %lld "
                      "rows",
                      net().channels, static_cast<long long>(net().capacity),
                      static_cast<long long>(features.d[0]),
                      static_cast<long long>(coords.d[0]));
        report(text);
        return 1;
    }
    bool read_pack()
    {
        std::ifstream file(s_.database, std::ios::binary);

        s_.pack.assign(std::istreambuf_iterator<char>(file), {});
        if (!s_.pack.empty() && s_.pack.size() <= INT32_MAX)
            return true;
        report(s_.pack.empty()
                   ? "embed needs the field 'database', a file"
                   : "the database is above 2 GB, and cannot be embedded");
        s_.pack.clear();
        return false;
    }

    settings s_;
    std::shared_ptr<instance> opened_;
    std::vector<PluginField> fields_;
    PluginFieldCollection collection_{};
};

class creator final : public IPluginCreatorV3One
{
  public:
    creator()
    {
        for (const auto &f : text_fields)
            fields_.emplace_back(f.name, nullptr, PluginFieldType::kCHAR, 0);
        for (const auto &f : number_fields)
            fields_.emplace_back(f.name, nullptr, PluginFieldType::kINT64,
                                 f.count);
        collection_.nbFields = static_cast<int32_t>(fields_.size());
        collection_.fields = fields_.data();
    }
    /* The plugin of an engine is opened when it is attached to a context. */
    IPluginV3 *createPlugin(AsciiChar const *,
                            PluginFieldCollection const *from,
                            TensorRTPhase phase) noexcept override
    try {
        settings s;
        std::string sentence;
        for (int32_t i = 0; from != nullptr && i < from->nbFields; i++)
            if (!read_field(s, from->fields[i], sentence)) {
                report(sentence.c_str());
                return nullptr;
            }
        std::shared_ptr<instance> opened;
        if (phase == TensorRTPhase::kBUILD) {
            opened = std::make_shared<instance>();
            if (!opened->open(s))
                return nullptr;
        }
        return new SpcNet(s, std::move(opened));
    } catch (...) {
        return nullptr;
    }
    PluginFieldCollection const *getFieldNames() noexcept override
    {
        return &collection_;
    }
    AsciiChar const *getPluginName() const noexcept override
    {
        return plugin_name;
    }
    AsciiChar const *getPluginVersion() const noexcept override
    {
        return plugin_version;
    }
    AsciiChar const *getPluginNamespace() const noexcept override
    {
        return "";
    }

  private:
    std::vector<PluginField> fields_;
    PluginFieldCollection collection_{};
};

} // namespace

/* TensorRT looks up these two functions in a plugin library. */
extern "C" __attribute__((visibility("default"))) void
setLoggerFinder(ILoggerFinder *finder)
{
    logger_finder = finder;
}

extern "C" __attribute__((visibility("default")))
IPluginCreatorInterface *const *
getCreators(int32_t &count)
{
    static creator one;
    static IPluginCreatorInterface *const all[] = {&one};

    count = 1;
    return all;
}
