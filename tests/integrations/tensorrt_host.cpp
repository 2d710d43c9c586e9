/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorrt_host.cpp - imitates TensorRT: opens the plugin's library, builds a
 * layer, serialises it like an engine, reads it back, attaches it to two
 * contexts, and enqueues frames. Each output is compared with libspc's own.
 *
 *     tensorrt_host PLUGIN DATABASE NETWORK OUTPUT CAPACITY DEVICE [times]
 *
 * On cuda it also captures an enqueue into a graph and runs two streams at
 * once. With `times` a graph that takes 2 % longer than that of libspc is a
 * failure.
 */
#include <spc.hpp>

#include <NvInferRuntime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace nvinfer1;

static std::vector<std::string> logged;

[[noreturn]] static void die(const std::string &text)
{
    for (const auto &line : logged)
        std::printf("log: %s\n", line.c_str());
    std::printf("FAILED: %s\n", text.c_str());
    std::exit(1);
}

static void need(bool holds, const std::string &text)
{
    if (!holds)
        die(text);
}

/* ---- arguments that TensorRT passes to plugins --------------------------- */

struct logger final : ILogger {
    void log(Severity, AsciiChar const *text) noexcept override
    {
        logged.emplace_back(text);
    }
};

struct finder final : ILoggerFinder {
    ILogger *findLogger() override
    {
        static logger one;
        return &one;
    }
};

struct expression final : IDimensionExpr, apiv::VDimensionExpr {
    explicit expression(int64_t value) : value_(value)
    {
        mImpl = this;
    }
    bool isConstant() const override
    {
        return true;
    }
    int64_t getConstantValue() const override
    {
        return value_;
    }
    bool isSizeTensor() const override
    {
        return false;
    }
    int64_t value_;
};

struct expressions final : IExprBuilder, apiv::VExprBuilder {
    expressions()
    {
        mImpl = this;
    }
    IDimensionExpr const *constant(int64_t value) override
    {
        all.emplace_back(value);
        return &all.back();
    }
    IDimensionExpr const *operation(DimensionOperation, IDimensionExpr const &,
                                    IDimensionExpr const &) override
    {
        return nullptr;
    }
    IDimensionExpr const *declareSizeTensor(int32_t, IDimensionExpr const &,
                                            IDimensionExpr const &) override
    {
        return nullptr;
    }
    std::deque<expression> all;
};

/* The fields of a layer or an engine, each with a copy of its data. */
struct fields {
    void text(const char *name, const std::string &value)
    {
        add(name, value.data(), value.size(), PluginFieldType::kCHAR,
            (int32_t)value.size());
    }
    void number(const char *name, int64_t value)
    {
        add(name, &value, sizeof(value), PluginFieldType::kINT64, 1);
    }
    void copy(const PluginFieldCollection &from)
    {
        for (int32_t i = 0; i < from.nbFields; i++) {
            const PluginField &f = from.fields[i];
            std::size_t size = f.type == PluginFieldType::kINT64 ? 8 : 1;
            add(f.name, f.data, size * (std::size_t)f.length, f.type, f.length);
        }
    }
    void add(const char *name, const void *data, std::size_t bytes,
             PluginFieldType type, int32_t length)
    {
        names.emplace_back(name);
        values.emplace_back((const char *)data, bytes);
        all.emplace_back(names.back().c_str(), values.back().data(), type,
                         length);
    }
    PluginFieldCollection collection() const
    {
        return {(int32_t)all.size(), all.data()};
    }
    std::deque<std::string> names, values;
    std::vector<PluginField> all;
};

static IPluginCreatorV3One *open_library(const char *path)
{
    static finder loggers;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        die(dlerror());
    auto set = (void (*)(ILoggerFinder *))dlsym(library, "setLoggerFinder");
    auto get = (IPluginCreatorInterface *const *(*)(int32_t &))dlsym(
        library, "getCreators");
    int32_t count = 0;
    need(set != nullptr && get != nullptr, "the library has no entry points");
    set(&loggers);
    auto *creator = static_cast<IPluginCreatorV3One *>(get(count)[0]);
    need(count == 1 && std::strcmp(creator->getPluginName(), "SpcNet") == 0 &&
             creator->getFieldNames()->nbFields == 10,
         "creators");
    return creator;
}

template <class T> static T *part(IPluginV3 *plugin, PluginCapabilityType type)
{
    return static_cast<T *>(plugin->getCapabilityInterface(type));
}

/* ---- the device ---------------------------------------------------------- */

/* The measurements call the driver's events and graphs directly. */
struct driver {
    template <class F> F *find(const char *name) const
    {
        void *symbol = dlsym(library, name);
        need(symbol != nullptr, std::string("the driver has no ") + name);
        return (F *)symbol;
    }
    template <class... A> void call(const char *name, A... args) const
    {
        int error = find<int(A...)>(name)(args...);
        need(error == 0,
             std::string(name) + ": error " + std::to_string(error));
    }
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
};

struct frame {
    frame(const spc::context &ctx, const spc_net_info &info, int64_t capacity,
          int64_t rows, unsigned seed)
        : rows(rows)
    {
        std::mt19937 random(seed);
        const int *shape = info.input->shape;
        std::set<std::vector<int32_t>> cells;
        while ((int64_t)cells.size() < rows)
            cells.insert({0, (int32_t)(random() % (unsigned)shape[0]),
                          (int32_t)(random() % (unsigned)shape[1]),
                          (int32_t)(random() % (unsigned)shape[2])});
        std::vector<int32_t> where;
        for (const auto &cell : cells)
            where.insert(where.end(), cell.begin(), cell.end());
        where.resize(4 * (std::size_t)capacity, 0);
        const std::size_t size = info.input->dtype == SPC_F32 ? 4 : 2;
        std::vector<unsigned char> values(
            (std::size_t)(capacity * info.input->channels) * size);
        for (std::size_t i = 0; i < values.size(); i += size) {
            float value = (float)(random() % 64) / 64;
            /* Fills features with numbers from 1 to 2, which are simple bit
             * patterns in binary16 and bfloat16. */
            uint16_t half = (uint16_t)(0x3c00 + random() % 64);
            size == 4 ? std::memcpy(&values[i], &value, 4)
                      : std::memcpy(&values[i], &half, 2);
        }
        const int32_t n[] = {(int32_t)rows};
        coords = spc::memory::of(ctx, where);
        features = spc::memory::of(ctx, values);
        count = spc::memory::of(ctx, n);
    }
    int64_t rows;
    spc::memory coords, features, count;
};

/* Runs a network with libspc itself. */
struct own_run {
    own_run(const spc::context &ctx, const spc::net &net, int64_t capacity)
        : plan(ctx, net, options(capacity)), memory(ctx, plan.memory_bytes())
    {
    }
    static spc_net_options options(int64_t capacity)
    {
        auto o = spc::init<spc_net_options>();
        o.capacity = capacity;
        return o;
    }
    spc_net_buffers buffers(const frame &f) const
    {
        auto b = spc::init<spc_net_buffers>();
        b.coords = f.coords.as<int32_t>();
        b.count = f.count.as<int32_t>();
        b.features = f.features.data();
        b.memory = memory.data();
        return b;
    }
    spc::net_plan plan;
    spc::memory memory;
};

/* A plugin that is attached to a context, with its outputs on the device. */
struct attached {
    attached(const spc::context &ctx, IPluginV3 *engine,
             DimsExprs const *shapes, const DataType *types, int outputs)
    {
        plugin.reset(
            part<IPluginV3OneRuntime>(engine, PluginCapabilityType::kRUNTIME)
                ->attachToContext(nullptr));
        if (plugin == nullptr)
            die("attachToContext");
        run = part<IPluginV3OneRuntime>(plugin.get(),
                                        PluginCapabilityType::kRUNTIME);
        for (int i = 0; i < outputs; i++) {
            std::size_t count = 1;
            for (int d = 0; d < shapes[i].nbDims; d++)
                count *= (std::size_t)shapes[i].d[d]->getConstantValue();
            bytes.push_back(count * (types[i] == DataType::kFLOAT ||
                                             types[i] == DataType::kINT32
                                         ? 4
                                         : 2));
            out.emplace_back(ctx, bytes.back());
            pointers.push_back(out.back().data());
        }
    }
    void enqueue(const frame &f, int64_t rows, int channels, void *stream)
    {
        const void *in[] = {f.features.data(), f.coords.data(), f.count.data()};
        PluginTensorDesc inputs[3] = {};
        inputs[0].dims = Dims{2, {rows, channels}};
        inputs[1].dims = Dims{2, {rows, 4}};
        inputs[2].dims = Dims{1, {1}};
        need(run->onShapeChange(inputs, 3, nullptr, 0) == 0, "onShapeChange");
        need(run->enqueue(inputs, nullptr, in, pointers.data(), nullptr,
                          (cudaStream_t)stream) == 0,
             "enqueue");
    }
    std::unique_ptr<IPluginV3> plugin;
    IPluginV3OneRuntime *run;
    std::vector<std::size_t> bytes;
    std::deque<spc::memory> out;
    std::vector<void *> pointers;
};

struct host {
    host(char **argv)
        : creator(open_library(argv[1])), capacity(std::atoll(argv[5])),
          device(argv[6])
    {
        auto o = spc::init<spc_ctx_options>();
        o.database = argv[2];
        o.device = argv[6];
        ctx = spc::context(o);
        net = spc::net::open(ctx, argv[3]);
        info = net.info();
        given.text("database", argv[2]);
        given.text("network", argv[3]);
        given.text("output", argv[4]);
        given.text("device", argv[6]);
        given.number("capacity", capacity);
        given.number("embed", 1);
        own = std::make_unique<own_run>(ctx, net, capacity);
        int i = 0;
        do
            output = own->plan.output(i++);
        while (std::strcmp(output.name, argv[4]) != 0);
    }
    std::unique_ptr<IPluginV3> make(const fields &f, TensorRTPhase phase) const
    {
        auto collection = f.collection();
        return std::unique_ptr<IPluginV3>(
            creator->createPlugin("layer", &collection, phase));
    }
    void build();
    void check_refusals() const;
    void compare(attached &a, const frame &f, int64_t rows);
    void overflow(attached &a);
    void check_streams(const driver &d, attached &a, attached &b);
    void time(const driver &d, attached &a, bool strict);

    IPluginCreatorV3One *creator;
    int64_t capacity;
    std::string device;
    spc::context ctx;
    spc::net net;
    spc_net_info info;
    std::unique_ptr<own_run> own;
    spc_net_output output;
    fields given, engine;
    expressions builder;
    DimsExprs shapes[3];
    DataType types[3];
    int outputs = 0;
};

/* Acts like TensorRT's builder: queries types, formats and shapes, and then the
 * engine's bytes. */
void host::build()
{
    auto plugin = make(given, TensorRTPhase::kBUILD);
    need(plugin != nullptr, "createPlugin");
    std::unique_ptr<IPluginV3> copy(plugin->clone());
    plugin.reset(); /* the clone stays valid */
    auto *b = part<IPluginV3OneBuild>(copy.get(), PluginCapabilityType::kBUILD);
    outputs = b->getNbOutputs();
    need(outputs == (output.dense ? 1 : 3), "getNbOutputs");
    const DataType half =
        output.dtype == SPC_BF16 ? DataType::kBF16 : DataType::kHALF;
    const DataType real = output.dtype == SPC_F32 ? DataType::kFLOAT : half;
    const DataType in[] = {real, DataType::kINT32, DataType::kINT32};
    need(b->getOutputDataTypes(types, outputs, in, 3) == 0 && types[0] == real,
         "getOutputDataTypes");
    need(b->getOutputShapes(nullptr, 3, nullptr, 0, shapes, outputs, builder) ==
             0,
         "getOutputShapes");
    DynamicPluginTensorDesc all[6] = {};
    for (int i = 0; i < 3 + outputs; i++) {
        all[i].desc.type = i < 3 ? in[i] : types[i - 3];
        need(b->supportsFormatCombination(i, all, 3, outputs),
             "supportsFormatCombination");
        all[i].desc.format = TensorFormat::kCHW32;
        need(!b->supportsFormatCombination(i, all, 3, outputs), "kCHW32");
        all[i].desc.format = TensorFormat::kLINEAR;
        all[i].desc.type = DataType::kBOOL;
        need(!b->supportsFormatCombination(i, all, 3, outputs), "kBOOL");
    }
    all[0].max = Dims{2, {capacity, info.input->channels}};
    all[1].max = Dims{2, {capacity, 4}};
    need(b->configurePlugin(all, 3, all + 3, outputs) == 0, "configurePlugin");
    all[0].max.d[0] = all[1].max.d[0] = capacity + 1;
    need(b->configurePlugin(all, 3, all + 3, outputs) != 0 &&
             logged.back().find("up to the capacity") != std::string::npos,
         "a profile beyond the capacity is refused");
    const auto *kept =
        part<IPluginV3OneRuntime>(copy.get(), PluginCapabilityType::kRUNTIME)
            ->getFieldsToSerialize();
    need(kept != nullptr, "getFieldsToSerialize");
    engine.copy(*kept);
    std::printf("built: %d outputs, the first", outputs);
    for (int i = 0; i < shapes[0].nbDims; i++)
        std::printf(" %lld", (long long)shapes[0].d[i]->getConstantValue());
    std::puts("");
}

void host::check_refusals() const
{
    struct {
        const char *name, *value, *sentence;
    } wrong[] = {
        {"network", "none", "has no network 'none'"},
        {"database", "/nowhere.db", "cannot open the database"},
        {"output", "none", "has no output 'none'; its outputs are:"},
        {"device", "tpu", "tpu"},
        {"colour", "red", "there is no field 'colour'"},
    };
    for (const auto &w : wrong) {
        fields f;
        f.copy(given.collection());
        f.text(w.name, w.value);
        need(make(f, TensorRTPhase::kBUILD) == nullptr &&
                 logged.back().find(w.sentence) != std::string::npos,
             std::string(w.sentence) + ": " + logged.back());
    }
    fields f;
    f.copy(given.collection());
    f.number("low", 3);
    need(make(f, TensorRTPhase::kBUILD) == nullptr &&
             logged.back().find("must have 3 numbers") != std::string::npos,
         "low");
}

static std::vector<unsigned char>
bytes_of(const spc::memory &from, std::size_t bytes, std::size_t offset = 0)
{
    std::vector<unsigned char> out(bytes);
    from.download(out, {}, offset);
    return out;
}

/* `rows` is the number of rows of the tensors, f.rows the count. */
void host::compare(attached &a, const frame &f, int64_t rows)
{
    own->plan.execute(own->buffers(f));
    own->plan.check();
    a.enqueue(f, rows, info.input->channels, nullptr);
    ctx.synchronize();
    std::size_t bytes = a.bytes[0];
    if (!output.dense) {
        const int64_t n = spc_coords_rows(output.set);
        int32_t count[1];
        a.out[2].download(count);
        need(count[0] == n, "the count of rows");
        bytes = bytes / (std::size_t)spc_coords_capacity(output.set) *
                (std::size_t)n;
        if (const int32_t *voxels = spc_coords_data(output.set)) {
            std::vector<unsigned char> mine((std::size_t)n * 16);
            spc_memory_download(mine.data(), ctx.get(), voxels, mine.size());
            need(mine == bytes_of(a.out[1], mine.size()), "the voxels");
        }
    }
    const auto result = bytes_of(a.out[0], bytes);
    need(result == bytes_of(own->memory, bytes, output.offset), "the bits");
    bool any = false;
    for (unsigned char byte : result)
        any |= byte != 0;
    need(any == (f.rows > 0), "an output is all zero");
}

/* The host does not know of a count beyond the capacity; the output must be
 * empty. */
void host::overflow(attached &a)
{
    frame f(ctx, info, capacity, capacity, 31);
    const int32_t more[] = {(int32_t)capacity + 1};

    compare(a, f, capacity);
    f.count.upload(more);
    a.enqueue(f, capacity, info.input->channels, nullptr);
    ctx.synchronize();
    const auto result = bytes_of(a.out.back(), a.bytes.back());
    need(result == std::vector<unsigned char>(result.size(), 0),
         "a frame beyond the capacity has an output");
}

/* Runs two contexts of one engine at the same time, on two streams, many
 * times. */
void host::check_streams(const driver &d, attached &a, attached &b)
{
    void *s[2];
    frame fa(ctx, info, capacity, capacity, 11),
        fb(ctx, info, capacity, capacity / 2, 12);
    compare(a, fa, capacity);
    compare(b, fb, capacity);
    const auto wanted_a = bytes_of(a.out[0], a.bytes[0]);
    const auto wanted_b = bytes_of(b.out[0], b.bytes[0]);
    for (auto &stream : s)
        d.call("cuStreamCreate", &stream, 1u);
    for (int i = 0; i < 50; i++) {
        a.enqueue(fa, capacity, info.input->channels, s[0]);
        b.enqueue(fb, capacity, info.input->channels, s[1]);
    }
    for (auto &stream : s)
        d.call("cuStreamSynchronize", stream);
    /* Rows beyond the count are undefined, so only rows below it are
     * compared. */
    need(!output.dense || (wanted_a == bytes_of(a.out[0], a.bytes[0]) &&
                           wanted_b == bytes_of(b.out[0], b.bytes[0])),
         "two streams");
    for (auto &stream : s)
        d.call("cuStreamDestroy_v2", stream);
    std::puts("two streams: the same bits");
}

/* Returns the time of a call in us: the median of 9 runs of `n` calls. */
template <class Call>
static double measure(const driver &d, void *stream, int n, Call call)
{
    void *from, *to;
    std::vector<double> us;
    d.call("cuEventCreate", &from, 0u);
    d.call("cuEventCreate", &to, 0u);
    for (int i = 0; i < 10; i++) {
        float ms = 0;
        d.call("cuEventRecord", from, stream);
        for (int k = 0; k < n; k++)
            call();
        d.call("cuEventRecord", to, stream);
        d.call("cuEventSynchronize", to);
        d.call("cuEventElapsedTime", &ms, from, to);
        if (i > 0)
            us.push_back(1e3 * (double)ms / n);
    }
    std::sort(us.begin(), us.end());
    return us[us.size() / 2];
}

void host::time(const driver &d, attached &a, bool strict)
{
    void *stream, *graph, *ready;
    frame f(ctx, info, capacity, capacity, 21);
    const auto buffers = own->buffers(f);
    compare(a, f, capacity);
    const auto wanted = bytes_of(a.out[0], a.bytes[0]);
    d.call("cuStreamCreate", &stream, 1u);
    d.call("cuStreamBeginCapture_v2", stream, 0);
    a.enqueue(f, capacity, info.input->channels, stream);
    d.call("cuStreamEndCapture", stream, &graph);
    d.call("cuGraphInstantiateWithFlags", &ready, graph, 0ull);
    a.out[0].upload(std::vector<unsigned char>(a.bytes[0], 0));
    d.call("cuGraphLaunch", ready, stream);
    d.call("cuStreamSynchronize", stream);
    need(!output.dense || wanted == bytes_of(a.out[0], a.bytes[0]),
         "the captured graph");
    std::puts("captured: the same bits");

    own->plan.capture(buffers);
    double ours = measure(d, stream, 100, [&] { own->plan.replay(stream); });
    double theirs = measure(d, stream, 100,
                            [&] { d.call("cuGraphLaunch", ready, stream); });
    double ours_eager =
        measure(d, stream, 100, [&] { own->plan.execute(buffers, stream); });
    double theirs_eager = measure(d, stream, 100, [&] {
        a.enqueue(f, capacity, info.input->channels, stream);
    });
    std::printf("graph: libspc %.1f us, plugin %.1f us, ratio %.4f\n"
                "enqueued: libspc %.1f us, plugin %.1f us, ratio %.4f\n",
                ours, theirs, theirs / ours, ours_eager, theirs_eager,
                theirs_eager / ours_eager);
    need(!strict || theirs <= 1.02 * ours, "more than 2 % slower than libspc");
}

int main(int argc, char **argv)
try {
    if (argc < 7)
        return 2;
    const bool cuda = std::strncmp(argv[6], "cuda", 4) == 0;
    driver d;
    if (cuda) { /* the primary context is current */
        void *primary;
        int handle;
        d.call("cuInit", 0u);
        d.call("cuDeviceGet", &handle, 0);
        d.call("cuDevicePrimaryCtxRetain", &primary, handle);
        d.call("cuCtxSetCurrent", primary);
    }
    host h(argv);
    h.build();
    h.check_refusals();
    auto read = h.make(h.engine, TensorRTPhase::kRUNTIME);
    need(read != nullptr, "an engine is read back");
    attached a(h.ctx, read.get(), h.shapes, h.types, h.outputs);
    attached b(h.ctx, read.get(), h.shapes, h.types, h.outputs);
    read.reset();
    const int64_t sizes[] = {h.capacity, h.capacity / 3, 1, 0, h.capacity};
    for (int64_t n : sizes) {
        frame f(h.ctx, h.info, h.capacity, n, (unsigned)n + 1);
        h.compare(a, f, h.capacity);
        h.compare(b, f, std::max<int64_t>(n, 1));
    }
    std::puts("2 contexts, 5 frames: the same bits");
    h.overflow(a);
    if (cuda) {
        h.check_streams(d, a, b);
        h.time(d, a, argc > 7);
    }
    return 0;
} catch (const spc::error &e) {
    die(e.what());
}
