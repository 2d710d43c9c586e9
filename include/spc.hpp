/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc.hpp - libspc for C++17: handles that free themselves, results as return
 * values, failures as exceptions or as statuses.
 *
 * Header only. It needs libspc, as spc.h does, and nothing else. Each class
 * owns one object of the C interface and can be moved but not copied. get()
 * returns the C object, for functions without a method here; release()
 * transfers its ownership to the caller. The C headers document each function:
 * the shapes and types of arrays, thread safety, and which calls wait.
 *
 * Failures. The last parameter of every call that can fail is an on_error. If
 * it is omitted, a failure throws spc::error with the status and the library's
 * error message. If it is an spc_error, the call does not throw: it stores
 * status and message there and returns the status or an empty handle.
 *
 *     plan.replay(stream);                        throws
 *     spc_error e;
 *     if (plan.replay(stream, e) != SPC_OK) ...   e.text is the sentence
 *
 * Lifetime. An object keeps its context open, so objects may be destroyed in
 * any order. A plan of a network keeps the network alive. A `memory` object
 * frees its device memory before its context closes.
 *
 * The hot path allocates nothing: update, execute, replay and check only call
 * the C function and compare its status. A handle that was moved from is empty;
 * using it gives SPC_EINVAL, as NULL does in C.
 */
#ifndef SPC_HPP
#define SPC_HPP

#include "spc.h"
#include "spc/db.h"
#include "spc/train.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace spc
{

/* ---- failures ------------------------------------------------------------ */

/* A failure; what() returns the library's error message. */
class error : public std::runtime_error
{
  public:
    error(spc_status status, const char *text)
        : std::runtime_error(text), status_(status)
    {
    }
    spc_status status() const noexcept
    {
        return status_;
    }

  private:
    spc_status status_;
};

/* How a call reports a failure: by an exception, or in an spc_error. */
class on_error
{
  public:
    on_error() noexcept = default; /* throws */
    on_error(spc_error &to) noexcept : to_(&to)
    {
    }

    /* Reports a failure that this header detects, with the given message. */
    spc_status fail(spc_status status, const char *text) const
    {
        if (to_ == nullptr)
            throw error(status, text);
        to_->status = status;
        std::snprintf(to_->text, sizeof(to_->text), "%s", text);
        return status;
    }
    /* Checks the status of a call whose error message is stored in the
     * context. */
    spc_status done(spc_status status, const spc_ctx *ctx) const
    {
        if (status != SPC_OK)
            return fail(status, sentence(status, spc_error_text(nullptr, ctx)));
        if (to_ != nullptr)
            *to_->text = '\0', to_->status = SPC_OK;
        return SPC_OK;
    }
    /* Calls call(spc_error *) and reports the error that it wrote. */
    template <class Call> spc_status run(Call call) const
    {
        spc_error own;
        spc_error *where = to_ != nullptr ? to_ : &own;
        own.text[0] = '\0';
        spc_status status = call(where);
        if (status != SPC_OK && to_ == nullptr)
            throw error(status, sentence(status, own.text));
        return status;
    }

  private:
    static const char *sentence(spc_status status, const char *text) noexcept
    {
        if (*text != '\0')
            return text;
        return status == SPC_EINVAL
                   ? "the handle is empty: it was moved from, or it was never "
                     "filled"
                   : spc_status_text(status);
    }
    spc_error *to_ = nullptr;
};

/* ---- values -------------------------------------------------------------- */

/* A view of contiguous elements that it does not own. */
template <class T> class span
{
  public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept
        : data_(data), size_(size)
    {
    }
    template <std::size_t N>
    constexpr span(T (&array)[N]) noexcept : data_(array), size_(N)
    {
    }
    /* Converts any container with data() and size(): std::vector, std::array, a
     * span. */
    template <class C, class = std::enable_if_t<std::is_convertible_v<
                           decltype(std::declval<C &>().data()), T *>>>
    constexpr span(C &&c) noexcept : data_(c.data()), size_(c.size())
    {
    }
    constexpr T *data() const noexcept
    {
        return data_;
    }
    constexpr std::size_t size() const noexcept
    {
        return size_;
    }
    constexpr bool empty() const noexcept
    {
        return size_ == 0;
    }
    constexpr T &operator[](std::size_t i) const noexcept
    {
        return data_[i];
    }
    constexpr T *begin() const noexcept
    {
        return data_;
    }
    constexpr T *end() const noexcept
    {
        return data_ + size_;
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* Returns a struct of the C interface with the defaults of its SPC_..._INIT:
 * auto options = spc::init<spc_net_options>(); */
template <class T> T init() noexcept = delete;
#define SPC_HPP_INIT(type, value)                                              \
    template <> inline type init<type>() noexcept                              \
    {                                                                          \
        return value;                                                          \
    }
SPC_HPP_INIT(spc_ctx_options, SPC_CTX_OPTIONS_INIT)
SPC_HPP_INIT(spc_coords_options, SPC_COORDS_OPTIONS_INIT)
SPC_HPP_INIT(spc_points_options, SPC_POINTS_OPTIONS_INIT)
SPC_HPP_INIT(spc_regrouping, SPC_REGROUPING_INIT)
SPC_HPP_INIT(spc_voxelisation, SPC_VOXELISATION_INIT)
SPC_HPP_INIT(spc_geometry, SPC_GEOMETRY_INIT)
SPC_HPP_INIT(spc_conv, SPC_CONV_INIT)
SPC_HPP_INIT(spc_feature, SPC_FEATURE_INIT)
SPC_HPP_INIT(spc_feature_buffers, SPC_FEATURE_BUFFERS_INIT)
SPC_HPP_INIT(spc_buffers, SPC_BUFFERS_INIT)
SPC_HPP_INIT(spc_explain_question, SPC_EXPLAIN_QUESTION_INIT)
SPC_HPP_INIT(spc_net_input, SPC_NET_INPUT_INIT)
SPC_HPP_INIT(spc_net_layer, SPC_NET_LAYER_INIT)
SPC_HPP_INIT(spc_net_masked, SPC_NET_MASKED_INIT)
SPC_HPP_INIT(spc_net_like, SPC_NET_LIKE_INIT)
SPC_HPP_INIT(spc_net_options, SPC_NET_OPTIONS_INIT)
SPC_HPP_INIT(spc_net_buffers, SPC_NET_BUFFERS_INIT)
SPC_HPP_INIT(spc_db_pack_options, SPC_DB_PACK_OPTIONS_INIT)
SPC_HPP_INIT(spc_db_prune_options, SPC_DB_PRUNE_OPTIONS_INIT)
#undef SPC_HPP_INIT

/* Reads a layer, an operator on features or a regrouping from its text:
 * auto layer = spc::parse<spc_conv>("subm,cin=64,cout=64,k=3"); */
template <class T> T parse(const char *text, on_error on = {}) = delete;
template <> inline spc_conv parse(const char *text, on_error on)
{
    spc_conv out = SPC_CONV_INIT;
    on.run([&](spc_error *e) { return spc_conv_parse(&out, text, e); });
    return out;
}
template <> inline spc_feature parse(const char *text, on_error on)
{
    spc_feature out = SPC_FEATURE_INIT;
    on.run([&](spc_error *e) { return spc_feature_parse(&out, text, e); });
    return out;
}
template <> inline spc_regrouping parse(const char *text, on_error on)
{
    spc_regrouping out = SPC_REGROUPING_INIT;
    on.run([&](spc_error *e) { return spc_regrouping_parse(&out, text, e); });
    return out;
}

namespace detail
{
/* Calls a function like snprintf twice: first for the length, then to write. */
template <class T>
std::string text_of(int (*format)(char *, std::size_t, const T *),
                    const T &value)
{
    char start[1];
    std::string out(static_cast<std::size_t>(format(start, 1, &value)), '\0');
    format(&out[0], out.size() + 1, &value);
    return out;
}

/* True if the elements can be copied as bytes. */
template <class Array>
constexpr bool holds_bytes = std::is_trivially_copyable_v<
    std::remove_reference_t<decltype(*std::data(std::declval<Array &>()))>>;

/* Owns one C object. */
template <class T, void (*Free)(T *)> class handle
{
  public:
    handle() noexcept = default;
    explicit handle(T *take) noexcept : object_(take)
    {
    }
    handle(handle &&from) noexcept : object_(from.release())
    {
    }
    handle &operator=(handle &&from) noexcept
    {
        if (this != &from)
            reset(from.release());
        return *this;
    }
    ~handle()
    {
        Free(object_);
    }
    T *get() const noexcept
    {
        return object_;
    }
    /* Transfers ownership: the caller frees the object. */
    T *release() noexcept
    {
        return std::exchange(object_, nullptr);
    }
    void reset(T *take = nullptr) noexcept
    {
        Free(std::exchange(object_, take));
    }
    explicit operator bool() const noexcept
    {
        return object_ != nullptr;
    }

  protected:
    T *object_ = nullptr;
};

using shared_ctx = std::shared_ptr<spc_ctx>;

/* Owns a C object that was made with a context. Keeps the context open, because
 * the error messages are stored there. */
template <class T, void (*Free)(T *)> class object : public handle<T, Free>
{
  protected:
    object() noexcept = default;
    explicit object(const shared_ctx &ctx) noexcept : ctx_(ctx)
    {
    }
    spc_status done(spc_status status, const on_error &on) const
    {
        return on.done(status, ctx_.get());
    }
    shared_ctx ctx_;
};

/* Passes the library's reports to a C++ function. An exception ends the
 * listing; rethrow() throws it again, outside of C. */
template <class Each> struct listener {
    Each &each;
    std::exception_ptr thrown{};

    template <class... Args> spc_status hear(Args... args) noexcept
    {
        try {
            each(args...);
            return SPC_OK;
        } catch (...) {
            thrown = std::current_exception();
            return SPC_EINTERRUPTED;
        }
    }
    void rethrow() const
    {
        if (thrown)
            std::rethrow_exception(thrown);
    }
};

template <class Each, class... Args> struct trampoline {
    static spc_status call(Args... args, void *payload)
    {
        return static_cast<listener<Each> *>(payload)->hear(args...);
    }
};
} // namespace detail

/* The canonical text that parse() accepts. */
inline std::string text(const spc_conv &conv)
{
    return detail::text_of(spc_conv_format, conv);
}
inline std::string text(const spc_feature &feature)
{
    return detail::text_of(spc_feature_format, feature);
}
inline std::string text(const spc_regrouping &how)
{
    return detail::text_of(spc_regrouping_format, how);
}

/* ---- context and memory -------------------------------------------------- */

/*
 * A device with its databases. One thread at a time may use a context and the
 * objects made with it, except plans, which any number of threads may execute.
 * Objects keep the context open: it closes with the last of them.
 */
class context
{
  public:
    context() noexcept = default;
    explicit context(const spc_ctx_options &options, on_error on = {})
    {
        spc_ctx *ctx = nullptr;
        if (on.run([&](spc_error *e) {
                return spc_ctx_create(&ctx, &options, e);
            }) != SPC_OK)
            return;
        try {
            ctx_.reset(ctx, spc_ctx_free); /* frees ctx if reset throws */
        } catch (const std::bad_alloc &) {
            on.fail(SPC_ENOMEM, "no memory for a context");
        }
    }
    context(context &&) noexcept = default;
    context &operator=(context &&) noexcept = default;

    spc_ctx *get() const noexcept
    {
        return ctx_.get();
    }
    explicit operator bool() const noexcept
    {
        return ctx_ != nullptr;
    }
    spc_device_info device(on_error on = {}) const
    {
        spc_device_info out = {};
        on.done(spc_ctx_device(&out, get()), get());
        return out;
    }
    spc_stats stats() const noexcept
    {
        return spc_ctx_stats(get());
    }
    spc_status synchronize(on_error on = {}) const
    {
        return on.done(spc_ctx_synchronize(get()), get());
    }
    spc_explanation explain(const spc_explain_question &ask, unsigned flags,
                            on_error on = {}) const
    {
        spc_explanation out = {};
        on.done(spc_explain(&out, get(), &ask, flags), get());
        return out;
    }
    const detail::shared_ctx &shared() const noexcept
    {
        return ctx_;
    }

  private:
    detail::shared_ctx ctx_;
};

/*
 * Device memory, owned. Pointers from another allocator (CUDA's or a
 * framework's) work too. upload and download wait.
 */
class memory
{
  public:
    memory() noexcept = default;
    memory(const context &ctx, std::size_t bytes, on_error on = {})
        : ctx_(ctx.shared())
    {
        if (on.done(spc_memory_alloc(&data_, ctx_.get(), bytes), ctx_.get()) ==
            SPC_OK)
            bytes_ = bytes;
    }
    /* Allocates memory for an array, std::vector or span and copies its
     * contents. */
    template <class Array>
    static memory of(const context &ctx, const Array &values, on_error on = {})
    {
        memory out(ctx, sizeof(*std::data(values)) * std::size(values), on);
        if (out)
            out.upload(values, on);
        return out;
    }
    memory(memory &&from) noexcept
        : ctx_(std::move(from.ctx_)), data_(std::exchange(from.data_, nullptr)),
          bytes_(std::exchange(from.bytes_, 0))
    {
    }
    memory &operator=(memory &&from) noexcept
    {
        if (this != &from) {
            spc_memory_free(ctx_.get(), data_);
            data_ = std::exchange(from.data_, nullptr);
            bytes_ = std::exchange(from.bytes_, 0);
            ctx_ = std::move(from.ctx_);
        }
        return *this;
    }
    ~memory()
    {
        spc_memory_free(ctx_.get(), data_);
    }
    void *data() const noexcept
    {
        return data_;
    }
    template <class T> T *as() const noexcept
    {
        return static_cast<T *>(data_);
    }
    std::size_t bytes() const noexcept
    {
        return bytes_;
    }
    explicit operator bool() const noexcept
    {
        return data_ != nullptr;
    }
    /* Copies an array, a std::vector or a span to or from the memory, starting
     * `offset` bytes in. SPC_ERANGE: the array does not fit. */
    template <class Array>
    spc_status upload(const Array &from, on_error on = {},
                      std::size_t offset = 0) const
    {
        static_assert(detail::holds_bytes<Array>, "bytes are copied");
        std::size_t bytes = sizeof(*std::data(from)) * std::size(from);
        if (!holds(bytes, offset))
            return on.fail(SPC_ERANGE,
                           "upload: the array does not fit the device memory");
        return on.done(spc_memory_upload(as<char>() + offset, ctx_.get(),
                                         std::data(from), bytes),
                       ctx_.get());
    }
    template <class Array>
    spc_status download(Array &&to, on_error on = {},
                        std::size_t offset = 0) const
    {
        static_assert(detail::holds_bytes<Array>, "bytes are copied");
        std::size_t bytes = sizeof(*std::data(to)) * std::size(to);
        if (!holds(bytes, offset))
            return on.fail(
                SPC_ERANGE,
                "download: the array is larger than the device memory");
        return on.done(spc_memory_download(std::data(to), ctx_.get(),
                                           as<char>() + offset, bytes),
                       ctx_.get());
    }

  private:
    bool holds(std::size_t bytes, std::size_t offset) const noexcept
    {
        return data_ != nullptr && offset <= bytes_ && bytes <= bytes_ - offset;
    }
    detail::shared_ctx ctx_;
    void *data_ = nullptr;
    std::size_t bytes_ = 0;
};

/* ---- scenes, sets, clouds, voxels, maps ---------------------------------- */

/* A copy of coordinates on the host: [rows][4], batch, x, y, z. Any number of
 * threads may read a scene. */
class scene : public detail::handle<spc_scene, spc_scene_free>
{
  public:
    using handle::handle;
    explicit scene(span<const std::int32_t> coords, const char *name = nullptr,
                   on_error on = {})
    {
        if (coords.size() % 4 != 0) {
            on.fail(SPC_EINVAL, "coordinates come four by four: batch, x, y, "
                                "z");
            return;
        }
        auto rows = static_cast<std::int64_t>(coords.size() / 4);
        on.run([&](spc_error *e) {
            return spc_scene_create(&object_, coords.data(), rows, name, e);
        });
    }
    std::int64_t rows() const noexcept
    {
        return spc_scene_rows(get());
    }
    span<const std::int32_t> coords() const noexcept
    {
        return {spc_scene_coords(get()), static_cast<std::size_t>(4 * rows())};
    }
    spc_scene_info info() const noexcept
    {
        spc_scene_info out;
        spc_scene_describe(&out, get());
        return out;
    }
};

/* A coordinate set on the device. Maps and sets that are made from the set keep
 * it alive. One thread at a time; update() enqueues, check() waits. */
class coords : public detail::object<spc_coords, spc_coords_free>
{
  public:
    coords() noexcept = default;
    /* Makes a set of `rows` coordinates on the device, [rows][4]. The capacity
     * fits exactly. Waits. */
    coords(const context &ctx, const std::int32_t *at, std::int64_t rows,
           void *stream = nullptr, on_error on = {})
        : object(ctx.shared())
    {
        done(spc_coords_create(&object_, ctx.get(), at, rows, stream), on);
    }
    coords(const context &ctx, const scene &scene, on_error on = {})
        : object(ctx.shared())
    {
        done(spc_coords_create_from_scene(&object_, ctx.get(), scene.get()),
             on);
    }
    /* Makes a reserved set, with a capacity and an extent, to be filled by
     * update(). */
    coords(const context &ctx, const spc_coords_options &options,
           on_error on = {})
        : object(ctx.shared())
    {
        done(spc_coords_create_reserved(&object_, ctx.get(), &options), on);
    }
    /* Makes the set of outputs of `geometry` over this set; waits. */
    coords outputs(const spc_geometry &geometry, on_error on = {}) const
    {
        coords out(ctx_);
        done(spc_coords_create_outputs(&out.object_, get(), &geometry), on);
        return out;
    }
    coords outputs_reserved(const spc_geometry &geometry,
                            std::int64_t capacity = 0, on_error on = {}) const
    {
        coords out(ctx_);
        done(spc_coords_create_outputs_reserved(&out.object_, get(), &geometry,
                                                capacity),
             on);
        return out;
    }
    /* Makes the set that a regrouping derives from 1 to 8 other sets. */
    static coords regrouped(span<const coords *const> sources,
                            const spc_regrouping &how,
                            std::int64_t capacity = 0, on_error on = {})
    {
        spc_coords *all[8] = {};
        if (sources.empty() || sources.size() > 8) {
            on.fail(SPC_EINVAL, "a set is made of 1 to 8 others");
            return {};
        }
        for (std::size_t i = 0; i < sources.size(); i++)
            all[i] = sources[i]->get();
        coords out(sources[0]->ctx_);
        out.done(spc_coords_create_regrouped_reserved(
                     &out.object_, all, static_cast<int>(sources.size()), &how,
                     capacity),
                 on);
        return out;
    }
    spc_status update(const std::int32_t *at, const std::int32_t *count,
                      std::int64_t rows, void *stream = nullptr,
                      on_error on = {}) const
    {
        return done(spc_coords_update(get(), at, count, rows, stream), on);
    }
    /* Fills a set of outputs from its inputs. */
    spc_status update(void *stream = nullptr, on_error on = {}) const
    {
        return update(nullptr, nullptr, 0, stream, on);
    }
    spc_status update_regrouped(const std::uint8_t *mask, void *stream,
                                on_error on = {}) const
    {
        return done(spc_coords_update_regrouped(get(), mask, stream), on);
    }
    spc_status check(void *stream = nullptr, on_error on = {}) const
    {
        return done(spc_coords_check(get(), stream), on);
    }
    std::int64_t rows() const noexcept
    {
        return spc_coords_rows(get());
    }
    std::int64_t capacity() const noexcept
    {
        return spc_coords_capacity(get());
    }
    const std::int32_t *data() const noexcept /* on the device, or NULL */
    {
        return spc_coords_data(get());
    }
    const std::int32_t *device_count() const noexcept
    {
        return spc_coords_device_count(get());
    }

  private:
    explicit coords(const detail::shared_ctx &ctx) noexcept : object(ctx)
    {
    }
};

/* A cloud of points on the device, [rows][3] fp32. In all else it behaves like
 * `coords`. */
class points : public detail::object<spc_points, spc_points_free>
{
  public:
    points() noexcept = default;
    points(const context &ctx, const float *xyz, const std::int32_t *batch,
           std::int64_t rows, void *stream = nullptr, on_error on = {})
        : object(ctx.shared())
    {
        done(spc_points_create(&object_, ctx.get(), xyz, batch, rows, stream),
             on);
    }
    points(const context &ctx, const spc_points_options &options,
           on_error on = {})
        : object(ctx.shared())
    {
        done(spc_points_create_reserved(&object_, ctx.get(), &options), on);
    }
    /* Makes a cloud with one true point for each voxel of this edge. */
    points sampled(float edge, on_error on = {}) const
    {
        points out(ctx_);
        done(spc_points_create_sampled(&out.object_, get(), edge), on);
        return out;
    }
    /* The same, with the point nearest to the voxel's centre. */
    points centred(float edge, on_error on = {}) const
    {
        points out(ctx_);
        done(spc_points_create_centred(&out.object_, get(), edge), on);
        return out;
    }
    spc_status update(const float *xyz, const std::int32_t *batch,
                      const std::int32_t *count, std::int64_t rows,
                      void *stream = nullptr, on_error on = {}) const
    {
        return done(spc_points_update(get(), xyz, batch, count, rows, stream),
                    on);
    }
    /* Fills a sampled cloud from its source. */
    spc_status update(void *stream = nullptr, on_error on = {}) const
    {
        return update(nullptr, nullptr, nullptr, 0, stream, on);
    }
    spc_status check(void *stream = nullptr, on_error on = {}) const
    {
        return done(spc_points_check(get(), stream), on);
    }
    std::int64_t rows() const noexcept
    {
        return spc_points_rows(get());
    }

  private:
    explicit points(const detail::shared_ctx &ctx) noexcept : object(ctx)
    {
    }
};

/* Converts points [rows][columns] fp32 to voxels with features, on the device.
 * One thread at a time; update() enqueues, check() waits. */
class voxels : public detail::object<spc_voxels, spc_voxels_free>
{
  public:
    voxels() noexcept = default;
    voxels(const context &ctx, const spc_voxelisation &how,
           std::int64_t most_points, std::int64_t capacity, on_error on = {})
        : object(ctx.shared())
    {
        done(
            spc_voxels_create(&object_, ctx.get(), &how, most_points, capacity),
            on);
    }
    spc_status update(const float *points, const std::int32_t *count,
                      std::int64_t rows, void *stream = nullptr,
                      on_error on = {}) const
    {
        return done(spc_voxels_update(get(), points, count, rows, stream), on);
    }
    spc_voxels_info check(void *stream = nullptr, on_error on = {}) const
    {
        spc_voxels_info out = {};
        done(spc_voxels_check(&out, get(), stream), on);
        return out;
    }
    const std::int32_t *coords() const noexcept
    {
        return spc_voxels_coords(get());
    }
    const std::int32_t *device_count() const noexcept
    {
        return spc_voxels_device_count(get());
    }
    const void *features() const noexcept
    {
        return spc_voxels_features(get());
    }
};

/* A kernel map on the device. It keeps its sets alive. Only one thread at a
 * time may fill the map. Between two fillings several threads may execute plans
 * on it. */
class map : public detail::object<spc_map, spc_map_free>
{
  public:
    map() noexcept = default;
    /* Makes the relation of two sets, to be filled by update(). */
    map(const context &ctx, const coords &in, const coords &to,
        const spc_geometry &geometry, on_error on = {})
        : object(ctx.shared())
    {
        done(spc_map_create(&object_, in.get(), to.get(), &geometry), on);
    }
    /* Makes the same relation in the reverse direction. */
    static map inverse(const context &ctx, const coords &in, const coords &to,
                       const spc_geometry &geometry, on_error on = {})
    {
        map out;
        out.ctx_ = ctx.shared();
        out.done(
            spc_map_create_inverse(&out.object_, in.get(), to.get(), &geometry),
            on);
        return out;
    }
    /* Makes the sets and the map of one layer on one scene, and fills them;
     * waits. */
    map(const context &ctx, const spc_conv &conv, const scene &scene,
        on_error on = {})
        : object(ctx.shared())
    {
        done(spc_map_create_from_scene(&object_, ctx.get(), &conv, scene.get()),
             on);
    }
    map(const context &ctx, const spc_conv &conv, const std::int32_t *at,
        std::int64_t rows, void *stream = nullptr, on_error on = {})
        : object(ctx.shared())
    {
        done(spc_map_create_from_rows(&object_, ctx.get(), &conv, at, rows,
                                      stream),
             on);
    }
    /* Makes the map of a points layer; `triplets` is its capacity. */
    map(const context &ctx, const points &in, const points &to,
        const spc_geometry &geometry, std::int64_t triplets, on_error on = {})
        : object(ctx.shared())
    {
        done(spc_map_create_radius(&object_, in.get(), to.get(), &geometry,
                                   triplets),
             on);
    }
    spc_status update(void *stream = nullptr, on_error on = {}) const
    {
        return done(spc_map_update(get(), nullptr, nullptr, 0, stream), on);
    }
    /* Fills the map and the set of a submanifold map. */
    spc_status update(const std::int32_t *at, const std::int32_t *count,
                      std::int64_t rows, void *stream = nullptr,
                      on_error on = {}) const
    {
        return done(spc_map_update(get(), at, count, rows, stream), on);
    }
    spc_status check(void *stream = nullptr, on_error on = {}) const
    {
        return done(spc_map_check(get(), stream), on);
    }
    std::int64_t rows_in() const noexcept
    {
        return spc_map_rows_in(get());
    }
    std::int64_t rows_out() const noexcept
    {
        return spc_map_rows_out(get());
    }
    std::int64_t pairs() const noexcept
    {
        return spc_map_pairs(get());
    }
    double density() const noexcept
    {
        return spc_map_density(get());
    }
    /* Copies the table [K][rows of the outputs' capacity] to the host. */
    spc_status download(span<std::int32_t> index, int offsets,
                        on_error on = {}) const
    {
        auto rows = spc_coords_capacity(spc_map_out(get()));
        if (index.size() != static_cast<std::size_t>(rows * offsets))
            return on.fail(SPC_EINVAL, "the table has offsets times capacity "
                                       "entries");
        return done(spc_map_download(index.data(), get()), on);
    }
};

/* ---- plans --------------------------------------------------------------- */

/*
 * A layer bound to one kernel. Immutable: any number of threads may execute it,
 * each with its own buffers and stream. Features [rows][channels], weights
 * packed by pack().
 */
class plan : public detail::object<spc_plan, spc_plan_free>
{
  public:
    plan() noexcept = default;
    plan(const context &ctx, const spc_conv &conv, const map &map,
         unsigned flags = SPC_PLAN_JIT, on_error on = {})
        : object(ctx.shared())
    {
        done(spc_plan_create(&object_, ctx.get(), &conv, map.get(), flags), on);
    }
    /* The plan of a linear layer, which needs no map. */
    static plan linear(const context &ctx, const spc_conv &conv,
                       std::int64_t rows, unsigned flags = SPC_PLAN_JIT,
                       on_error on = {})
    {
        plan out;
        out.ctx_ = ctx.shared();
        out.done(
            spc_plan_create_linear(&out.object_, ctx.get(), &conv, rows, flags),
            on);
        return out;
    }
    spc_match match() const noexcept
    {
        return spc_plan_match(get());
    }
    spc_level level() const noexcept
    {
        return spc_plan_level(get());
    }
    const char *reason() const noexcept
    {
        return spc_plan_reason(get());
    }
    bool fits(const map &map) const noexcept
    {
        return spc_plan_fits(get(), map.get());
    }
    std::size_t weights_bytes() const noexcept
    {
        return spc_plan_weights_bytes(get());
    }
    std::size_t workspace_bytes(const map &map) const noexcept
    {
        return spc_plan_workspace_bytes(get(), map.get());
    }
    std::size_t workspace_bytes(std::int64_t rows) const noexcept
    {
        return spc_plan_workspace_bytes_linear(get(), rows);
    }
    spc_status pack(void *packed, const void *weights,
                    spc_weights_layout layout, void *stream = nullptr,
                    on_error on = {}) const
    {
        return done(spc_plan_pack(packed, get(), weights, layout, stream), on);
    }
    /* Prepares another map for this plan; allocates. */
    spc_status prepare(const map &map, void *stream = nullptr,
                       on_error on = {}) const
    {
        return done(spc_map_prepare(map.get(), get(), stream), on);
    }
    spc_status execute(const map &map, const spc_buffers &buffers,
                       void *stream = nullptr, on_error on = {}) const
    {
        return done(spc_plan_execute(get(), map.get(), &buffers, stream), on);
    }
    spc_status execute(std::int64_t rows, const std::int32_t *count,
                       const spc_buffers &buffers, void *stream = nullptr,
                       on_error on = {}) const
    {
        return done(
            spc_plan_execute_linear(get(), rows, count, &buffers, stream), on);
    }
};

/* ---- networks ------------------------------------------------------------ */

/* A network on the host: a graph of layers with weights. One thread at a time
 * builds and reads it; plans keep it alive. */
class net : public detail::handle<spc_net, spc_net_free>
{
  public:
    using handle::handle;
    net() noexcept = default;
    /* Makes an empty network, to be built. */
    explicit net(const char *name, on_error on = {})
    {
        on.run([&](spc_error *e) { return spc_net_create(&object_, name, e); });
    }
    /* Loads a network from a Lua file. */
    static net load(const char *path, spc_dtype dtype, on_error on = {})
    {
        net out;
        on.run([&](spc_error *e) {
            return spc_net_load(&out.object_, path, dtype, e);
        });
        return out;
    }
    /* Opens a stored network by its name. */
    static net open(const context &ctx, const char *name, on_error on = {})
    {
        net out;
        on.done(spc_net_open(&out.object_, ctx.get(), name), ctx.get());
        return out;
    }
    spc_status store(const context &ctx, const char *name,
                     const char *source = nullptr, bool replace = false,
                     on_error on = {}) const
    {
        return on.done(spc_net_store(ctx.get(), get(), name, source, replace),
                       ctx.get());
    }
    spc_net_info info() const noexcept
    {
        spc_net_info out;
        spc_net_describe(&out, get());
        return out;
    }
    spc_tensor input(const spc_net_input &input, on_error on = {}) const
    {
        return made(on, [&](spc_tensor *out, spc_error *e) {
            return spc_net_add_input(out, get(), &input, e);
        });
    }
    spc_tensor conv(const spc_net_layer &layer, on_error on = {}) const
    {
        return made(on, [&](spc_tensor *out, spc_error *e) {
            return spc_net_add_conv(out, get(), &layer, e);
        });
    }
    spc_tensor feature(const char *name, const spc_feature &feature,
                       spc_tensor in, spc_tensor add = SPC_NO_TENSOR,
                       spc_tensor at = SPC_NO_TENSOR, on_error on = {}) const
    {
        return made(on, [&](spc_tensor *out, spc_error *e) {
            return spc_net_add_feature(out, get(), name, &feature, in, add, at,
                                       e);
        });
    }
    spc_tensor concat(span<const spc_tensor> parts, on_error on = {}) const
    {
        return made(on, [&](spc_tensor *out, spc_error *e) {
            return spc_net_add_concat(out, get(), parts.data(),
                                      static_cast<int>(parts.size()), e);
        });
    }
    spc_tensor regroup(span<const spc_tensor> sources,
                       const spc_regrouping &how, bool slices,
                       on_error on = {}) const
    {
        return made(on, [&](spc_tensor *out, spc_error *e) {
            return spc_net_add_regroup(out, get(), sources.data(),
                                       static_cast<int>(sources.size()), &how,
                                       slices, e);
        });
    }
    spc_tensor masked(const spc_net_masked &masked, on_error on = {}) const
    {
        return made(on, [&](spc_tensor *out, spc_error *e) {
            return spc_net_add_masked(out, get(), &masked, e);
        });
    }
    spc_status output(spc_tensor tensor, const char *name,
                      on_error on = {}) const
    {
        return on.run([&](spc_error *e) {
            return spc_net_add_output(get(), tensor, name, e);
        });
    }
    spc_net_param param(int i, on_error on = {}) const
    {
        spc_net_param out = {};
        if (spc_net_param_at(&out, get(), i) != SPC_OK)
            on.fail(SPC_EINVAL, "the network has no such parameter");
        return out;
    }
    spc_status set_param(const char *layer, spc_operand which,
                         span<const float> values, on_error on = {}) const
    {
        return on.run([&](spc_error *e) {
            return spc_net_set_param(get(), layer, which, values.data(),
                                     static_cast<std::int64_t>(values.size()),
                                     e);
        });
    }
    spc_status init_params(std::uint64_t seed, on_error on = {}) const
    {
        return on.run(
            [&](spc_error *e) { return spc_net_init_params(get(), seed, e); });
    }

  private:
    template <class Call> static spc_tensor made(const on_error &on, Call call)
    {
        spc_tensor out = SPC_NO_TENSOR;
        on.run([&](spc_error *e) { return call(&out, e); });
        return out;
    }
};

/*
 * A network on a device: sets, maps, kernels, packed weights. A plan runs once
 * at a time; several plans may run at once, each with separate memory and
 * stream.
 */
class net_plan : public detail::object<spc_net_plan, spc_net_plan_free>
{
  public:
    net_plan() noexcept = default;
    net_plan(const context &ctx, const net &net, const spc_net_options &options,
             on_error on = {})
        : object(ctx.shared())
    {
        done(spc_net_plan_create(&object_, ctx.get(), net.get(), &options), on);
    }
    std::size_t memory_bytes() const noexcept
    {
        return spc_net_plan_memory_bytes(get());
    }
    std::size_t weights_bytes() const noexcept
    {
        return spc_net_plan_weights_bytes(get());
    }
    spc_status execute(const spc_net_buffers &buffers, void *stream = nullptr,
                       on_error on = {}) const
    {
        return done(spc_net_plan_execute(get(), &buffers, stream), on);
    }
    spc_status capture(const spc_net_buffers &buffers, on_error on = {}) const
    {
        return done(spc_net_plan_capture(get(), &buffers), on);
    }
    spc_status replay(void *stream = nullptr, on_error on = {}) const
    {
        return done(spc_net_plan_replay(get(), stream), on);
    }
    /* Waits, and reports errors of the scene. */
    spc_status check(void *stream = nullptr, on_error on = {}) const
    {
        return done(spc_net_plan_check(get(), stream), on);
    }
    spc_net_output output(int i, on_error on = {}) const
    {
        spc_net_output out = {};
        done(spc_net_plan_output_at(&out, get(), i), on);
        return out;
    }
    int steps() const noexcept
    {
        return spc_net_plan_step_count(get());
    }
    spc_net_step step(int i, on_error on = {}) const
    {
        spc_net_step out = {};
        done(spc_net_plan_step_at(&out, get(), i), on);
        return out;
    }
};

/* An operator on features, with its kernels loaded. Immutable, like `plan`. */
class feature_plan
    : public detail::object<spc_feature_plan, spc_feature_plan_free>
{
  public:
    feature_plan() noexcept = default;
    feature_plan(const context &ctx, const spc_feature &feature,
                 unsigned flags = SPC_PLAN_JIT, on_error on = {})
        : object(ctx.shared())
    {
        done(spc_feature_plan_create(&object_, ctx.get(), &feature, flags), on);
    }
    std::size_t workspace_bytes(const coords &set) const noexcept
    {
        return spc_feature_plan_workspace_bytes(get(), set.get());
    }
    spc_status prepare(const map &map, void *stream = nullptr,
                       on_error on = {}) const
    {
        return done(spc_feature_plan_prepare(get(), map.get(), stream), on);
    }
    /* `map` is for operators that read a map. */
    spc_status execute(const coords &set, const spc_feature_buffers &buffers,
                       void *stream = nullptr, on_error on = {}) const
    {
        return done(spc_feature_plan_execute(get(), set.get(), nullptr,
                                             &buffers, stream),
                    on);
    }
    spc_status execute(const map &map, const spc_feature_buffers &buffers,
                       void *stream = nullptr, on_error on = {}) const
    {
        return done(spc_feature_plan_execute(get(), nullptr, map.get(),
                                             &buffers, stream),
                    on);
    }
};

/* Training of a network on one scene. One thread at a time. The training owns
 * the arrays that it returns; they are on the device. */
class training : public detail::object<spc_training, spc_training_free>
{
  public:
    training() noexcept = default;
    training(const context &ctx, const net &net, const scene &scene,
             unsigned flags = SPC_PLAN_JIT, on_error on = {})
        : object(ctx.shared())
    {
        done(spc_training_create(&object_, ctx.get(), net.get(), scene.get(),
                                 flags),
             on);
    }
    std::int64_t rows() const noexcept
    {
        return spc_training_rows(get());
    }
    const void *forward(const void *features, void *stream = nullptr,
                        on_error on = {}) const
    {
        const void *out = nullptr;
        done(spc_training_forward(&out, get(), features, stream), on);
        return out;
    }
    spc_status backward(const void *grad, void *stream = nullptr,
                        on_error on = {}) const
    {
        return done(spc_training_backward(get(), grad, stream), on);
    }
    spc_status descend(float rate, on_error on = {}) const
    {
        return done(spc_training_descend(get(), rate), on);
    }
};

/* ---- the database -------------------------------------------------------- */

/* The records of a context's databases. Keeps the context open. One thread at
 * a time. A function that is called for each record may throw: the listing
 * ends, and the exception reaches the caller. */
class database
{
  public:
    explicit database(const context &ctx) noexcept : ctx_(ctx.shared())
    {
    }
    /* each(const spc_db_row &) */
    template <class Each> spc_status each(Each &&each, on_error on = {}) const
    {
        auto one = [&](const spc_db_row *row) { each(*row); };
        return list<const spc_db_row *>(
            on, one, [this](auto call, void *payload) {
                return spc_db_each(ctx_.get(), call, payload);
            });
    }
    /* each(const spc_net_row &) */
    template <class Each>
    spc_status each_net(Each &&each, on_error on = {}) const
    {
        auto one = [&](const spc_net_row *row) { each(*row); };
        return list<const spc_net_row *>(
            on, one, [this](auto call, void *payload) {
                return spc_net_each(ctx_.get(), call, payload);
            });
    }
    /* each(const spc_db_fault &); returns how many records there are. */
    template <class Each>
    std::int64_t verify(Each &&each, on_error on = {}) const
    {
        std::int64_t checked = 0;
        auto one = [&](const spc_db_fault *fault) { each(*fault); };
        list<const spc_db_fault *>(on, one, [&](auto call, void *payload) {
            return spc_db_verify(&checked, ctx_.get(), call, payload);
        });
        return checked;
    }
    /* Records as sorted text. */
    std::string export_text(spc_db_what what, on_error on = {}) const
    {
        std::string out;
        auto one = [&](const char *text, std::size_t bytes) {
            out.append(text, bytes);
        };
        list<const char *, std::size_t>(on, one, [&](auto call, void *payload) {
            return spc_db_export(nullptr, ctx_.get(), what, call, payload);
        });
        return out;
    }
    spc_db_exchange import_text(const std::string &text, on_error on = {}) const
    {
        spc_db_exchange out = {};
        on.done(spc_db_import(ctx_.get(), text.data(), text.size(), &out),
                ctx_.get());
        return out;
    }
    spc_db_exchange merge(const char *path, on_error on = {}) const
    {
        spc_db_exchange out = {};
        on.done(spc_db_merge(ctx_.get(), path, &out), ctx_.get());
        return out;
    }
    spc_db_packed
    pack(const char *path,
         const spc_db_pack_options &options = init<spc_db_pack_options>(),
         on_error on = {}) const
    {
        spc_db_packed out = {};
        on.done(spc_db_pack(&out, ctx_.get(), path, &options), ctx_.get());
        return out;
    }
    spc_status remove_net(const char *name, on_error on = {}) const
    {
        return on.done(spc_net_remove(ctx_.get(), name), ctx_.get());
    }

  private:
    template <class... Args, class One, class Call>
    spc_status list(const on_error &on, One &one, Call call) const
    {
        detail::listener<One> to{one};
        spc_status status = call(detail::trampoline<One, Args...>::call, &to);
        to.rethrow();
        return on.done(status, ctx_.get());
    }
    detail::shared_ctx ctx_;
};

} // namespace spc

#endif
