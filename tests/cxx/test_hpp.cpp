/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hpp.cpp - spc.hpp gives the results of the C interface, reports failures
 * as exceptions or statuses with the library's message, refuses handles that
 * were moved from, and allocates nothing in the hot path.
 */
#include "spc.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <check.h>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <unistd.h>
#include <vector>

/* ---- counting allocations of C++ -------------------------------------- */

static std::atomic<long> allocations;

/* Not inlined: gcc would see malloc inside new and free inside delete, and
 * warn. */
__attribute__((noinline)) void *operator new(std::size_t bytes)
{
    allocations++;
    if (void *out = std::malloc(bytes > 0 ? bytes : 1))
        return out;
    throw std::bad_alloc();
}

__attribute__((noinline)) void operator delete(void *memory) noexcept
{
    std::free(memory);
}

__attribute__((noinline)) void operator delete(void *memory,
                                               std::size_t) noexcept
{
    std::free(memory);
}

/* ---- a layer and a scene ------------------------------------------------- */

enum { SIDE = 5, ROWS = SIDE * SIDE * SIDE, CHANNELS = 4 };

static const char layer_text[] = "subm,cin=4,cout=4,k=3,dtype=f32";

static spc::context open_context()
{
    auto options = spc::init<spc_ctx_options>();
    const char *shared = std::getenv("SPC_TEST_DATABASE");

    options.device = "cpu";
    options.database = shared != nullptr ? shared : "";
    return spc::context(options);
}

/* Returns the voxels of a solid cube, in the order of their keys. */
static std::vector<std::int32_t> cube()
{
    std::vector<std::int32_t> at;

    for (int i = 0; i < ROWS; i++)
        at.insert(at.end(), {0, i / (SIDE * SIDE), i / SIDE % SIDE, i % SIDE});
    return at;
}

static int near(int at)
{
    return at == 0 || at == SIDE - 1 ? 2 : 3;
}

/* Everything that one layer needs to run on the cube. */
struct fixture {
    spc::context ctx = open_context();
    spc_conv conv = spc::parse<spc_conv>(layer_text);
    spc::scene scene{cube(), "cube"};
    spc::map map{ctx, conv, scene};
    spc::plan plan{ctx, conv, map};
    spc::memory in =
        spc::memory::of(ctx, std::vector<float>(ROWS *CHANNELS, 1));
    spc::memory out{ctx, ROWS *CHANNELS * sizeof(float)};
    spc::memory packed{ctx, plan.weights_bytes()};
    spc::memory work{ctx, plan.workspace_bytes(map) + 1};
    spc_buffers buffers = spc::init<spc_buffers>();

    fixture()
    {
        auto weights = spc::memory::of(
            ctx, std::vector<float>(27 * CHANNELS * CHANNELS, 0.5f));
        plan.pack(packed.data(), weights.data(), SPC_KRSC);
        ctx.synchronize();
        buffers.in = in.data();
        buffers.out = out.data();
        buffers.weights = packed.data();
        buffers.workspace = work.data();
    }
};

static void check_sums(const std::vector<float> &sums)
{
    for (int i = 0; i < ROWS * CHANNELS; i++) {
        int v = i / CHANNELS;
        int seen =
            near(v / (SIDE * SIDE)) * near(v / SIDE % SIDE) * near(v % SIDE);
        ck_assert_float_eq(sums[(std::size_t)i], 0.5f * CHANNELS * (float)seen);
    }
}

/* Returns the exception that a call throws. The test fails if it throws
 * none. */
template <class Call> static spc::error thrown_by(Call call)
{
    try {
        call();
    } catch (const spc::error &e) {
        return e;
    }
    ck_abort_msg("nothing was thrown");
    std::abort();
}

static void assert_says(const char *text, const char *words)
{
    ck_assert_msg(std::strstr(text, words) != nullptr, "'%s' does not say '%s'",
                  text, words);
}

/* ---- checks at compile time ------------------------------------------ */

template <class T> static constexpr bool moves_only()
{
    return std::is_nothrow_move_constructible_v<T> &&
           std::is_nothrow_move_assignable_v<T> &&
           !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
}

static_assert(moves_only<spc::context>() && moves_only<spc::memory>() &&
              moves_only<spc::scene>() && moves_only<spc::coords>() &&
              moves_only<spc::points>() && moves_only<spc::voxels>() &&
              moves_only<spc::map>() && moves_only<spc::plan>() &&
              moves_only<spc::feature_plan>() && moves_only<spc::net>() &&
              moves_only<spc::net_plan>() && moves_only<spc::training>());
static_assert(!std::is_constructible_v<spc::span<int>, std::vector<float> &>);
static_assert(
    !std::is_constructible_v<spc::span<int>, const std::vector<int> &>);

/* ---- results ------------------------------------------------------------- */

START_TEST(a_layer_gives_the_sums)
{
    fixture f;
    std::vector<float> sums(ROWS * CHANNELS, -1);

    f.plan.execute(f.map, f.buffers);
    f.ctx.synchronize();
    f.out.download(sums);
    check_sums(sums);
    ck_assert(f.plan.fits(f.map));
    ck_assert_int_eq(f.map.rows_out(), ROWS);
    ck_assert_str_ne(f.plan.reason(), "");
}
END_TEST

START_TEST(reserved_sets_serve_frames)
{
    fixture f;
    auto options = spc::init<spc_coords_options>();
    options.capacity = 2 * ROWS;
    std::fill(options.high + 1, options.high + 4, SIDE);
    spc::coords set(f.ctx, options);
    spc::map map(f.ctx, set, set, f.conv.geometry);
    auto at = spc::memory::of(f.ctx, cube());
    std::vector<float> sums(ROWS * CHANNELS, -1);

    f.plan.prepare(map);
    set.update(at.as<std::int32_t>(), nullptr, ROWS);
    map.update();
    map.check();
    ck_assert_int_eq(set.rows(), ROWS);
    ck_assert_int_eq(set.capacity(), 2 * ROWS);
    spc::memory in(f.ctx, 2 * ROWS * CHANNELS * sizeof(float));
    spc::memory out(f.ctx, in.bytes());
    spc::memory work(f.ctx, f.plan.workspace_bytes(map) + 1);
    in.upload(std::vector<float>(ROWS * CHANNELS, 1));
    f.buffers.in = in.data();
    f.buffers.out = out.data();
    f.buffers.workspace = work.data();
    f.plan.execute(map, f.buffers);
    f.ctx.synchronize();
    out.download(sums);
    check_sums(sums);
}
END_TEST

START_TEST(objects_outlive_their_context)
{
    std::vector<float> sums(ROWS * CHANNELS, -1);
    fixture f;

    f.ctx = spc::context();
    ck_assert(!f.ctx);
    f.plan.execute(f.map, f.buffers);
    f.out.download(sums);
    check_sums(sums);
    f.buffers.in = nullptr;
    spc::error e = thrown_by([&] { f.plan.execute(f.map, f.buffers); });
    ck_assert_int_eq(e.status(), SPC_EINVAL);
    assert_says(e.what(), "in");
}
END_TEST

START_TEST(the_hot_path_allocates_nothing)
{
    fixture f;
    spc_error error;
    long before;

    f.plan.execute(f.map, f.buffers);
    before = allocations;
    for (int i = 0; i < 3; i++) {
        f.plan.execute(f.map, f.buffers, nullptr, error);
        f.plan.execute(f.map, f.buffers);
        f.map.check(nullptr);
        f.ctx.synchronize();
    }
    ck_assert_int_eq(allocations - before, 0);
    std::vector<int> counted(3);
    ck_assert_int_gt(allocations - before, 0);
}
END_TEST

START_TEST(regrouped_sets_and_outputs)
{
    fixture f;
    spc::coords set(f.ctx, f.scene);
    auto down =
        spc::parse<spc_conv>("conv,cin=4,cout=4,k=2,stride=2,rule=floor");
    spc::coords half = set.outputs(down.geometry);
    const spc::coords *both[] = {&set, &half};
    auto how = spc::parse<spc_regrouping>("union");
    auto united = spc::coords::regrouped(both, how);

    ck_assert_int_eq(half.rows(), 3 * 3 * 3);
    united.update_regrouped(nullptr, nullptr);
    united.check();
    ck_assert_int_eq(united.rows(), ROWS);
    spc::map map(f.ctx, set, half, down.geometry);
    map.update();
    map.check();
    std::vector<std::int32_t> index(8 * 27);
    map.download(index, 8);
    ck_assert_int_eq(
        std::count_if(index.begin(), index.end(), [](int i) { return i >= 0; }),
        ROWS);
    ck_assert_int_eq(thrown_by([&] { map.download(index, 7); }).status(),
                     SPC_EINVAL);
    ck_assert_int_eq(
        thrown_by([&] { spc::coords::regrouped({}, how); }).status(),
        SPC_EINVAL);
}
END_TEST

START_TEST(points_become_voxels_and_clouds)
{
    fixture f;
    auto how = spc::init<spc_voxelisation>();
    const float at[] = {0.5f, 0.5f, 0.5f, 1, 1.5f, 0.5f, 0.5f, 2,
                        0.4f, 0.5f, 0.5f, 3, 9,    9,    9,    4};
    auto device = spc::memory::of(f.ctx, at);
    for (int a = 0; a < 3; a++)
        how.voxel[a] = 1, how.high[a] = 4;
    spc::voxels voxels(f.ctx, how, 10, 10);

    voxels.update(device.as<float>(), nullptr, 4);
    spc_voxels_info info = voxels.check();
    ck_assert_int_eq(info.voxels, 2);
    ck_assert_int_eq(info.outside, 1);
    const float xyz[] = {0, 0, 0, 1, 0, 0, 0, 0, 0.25f};
    spc::points cloud(f.ctx, spc::memory::of(f.ctx, xyz).as<float>(), nullptr,
                      3);
    spc::points fewer = cloud.sampled(0.5f);
    ck_assert_int_eq(cloud.rows(), 3);
    fewer.update();
    fewer.check();
    ck_assert_int_eq(fewer.rows(), 2);
}
END_TEST

START_TEST(operators_on_features)
{
    fixture f;
    spc::coords set(f.ctx, f.scene);
    auto relu = spc::parse<spc_feature>("act=relu,c=4,dtype=f32");
    spc::feature_plan plan(f.ctx, relu);
    auto in = spc::memory::of(f.ctx, std::vector<float>(ROWS * CHANNELS, -2));
    auto buffers = spc::init<spc_feature_buffers>();
    std::vector<float> out(ROWS * CHANNELS, 7);

    buffers.in = in.data();
    buffers.out = f.out.data();
    plan.execute(set, buffers);
    f.out.download(out);
    ck_assert(
        std::all_of(out.begin(), out.end(), [](float x) { return x == 0; }));
    ck_assert_int_eq(plan.workspace_bytes(set), 0);
}
END_TEST

/* ---- values -------------------------------------------------------------- */

START_TEST(texts_are_read_and_written)
{
    auto conv = spc::parse<spc_conv>(layer_text);
    auto again = spc::parse<spc_conv>(spc::text(conv).c_str());
    auto pool = spc::parse<spc_feature>("pool=max,c=8,rule=floor,k=2,stride=2");
    spc_error error;

    ck_assert_int_eq(conv.cin, 4);
    ck_assert(spc::text(again) == spc::text(conv));
    ck_assert_int_eq(spc::parse<spc_feature>(spc::text(pool).c_str()).channels,
                     8);
    auto how = spc::parse<spc_regrouping>("collapse,axis=z");
    ck_assert_int_eq(
        spc::parse<spc_regrouping>(spc::text(how).c_str()).scale[2], 0);
    spc::error e = thrown_by([] { spc::parse<spc_conv>("subm,cin=oops"); });
    ck_assert_int_eq(e.status(), SPC_EINVAL);
    assert_says(e.what(), "oops");
    spc::parse<spc_conv>("subm,cin=oops", error);
    ck_assert_int_eq(error.status, SPC_EINVAL);
    ck_assert_str_eq(error.text, e.what());
}
END_TEST

START_TEST(spans_see_arrays)
{
    int three[3] = {1, 2, 3};
    std::vector<int> two = {4, 5};
    std::array<int, 1> one = {6};
    spc::span<const int> all[] = {three, two, one, {}};
    int sum = 0;

    for (auto &part : all)
        for (int i : part)
            sum += i;
    ck_assert_int_eq(sum, 21);
    ck_assert(all[3].empty());
    ck_assert_int_eq(all[0][2], 3);
}
END_TEST

/* ---- failures ------------------------------------------------------------ */

START_TEST(a_failure_is_an_exception_or_a_status)
{
    auto options = spc::init<spc_ctx_options>();
    spc_error error = {SPC_EIO, "old"};

    options.device = "abacus";
    options.database = "";
    spc::error e = thrown_by([&] { spc::context ctx(options); });
    assert_says(e.what(), "abacus");
    spc::context none(options, error);
    ck_assert(!none);
    ck_assert_int_eq(error.status, e.status());
    ck_assert_str_eq(error.text, e.what());

    fixture f;
    ck_assert_int_eq(f.plan.execute(f.map, f.buffers, nullptr, error), SPC_OK);
    ck_assert_int_eq(error.status, SPC_OK);
    ck_assert_str_eq(error.text, "");
    f.buffers.out = nullptr;
    e = thrown_by([&] { f.plan.execute(f.map, f.buffers); });
    ck_assert_str_eq(e.what(), spc_ctx_error(f.ctx.get()));
    ck_assert_int_eq(f.plan.execute(f.map, f.buffers, nullptr, error),
                     SPC_EINVAL);
    ck_assert_str_eq(error.text, e.what());
    e = thrown_by([&] { spc::net::open(f.ctx, "nobody"); });
    ck_assert_int_ne(e.status(), SPC_OK);
    ck_assert_str_ne(e.what(), "");
}
END_TEST

START_TEST(moved_handles_are_refused)
{
    fixture f;
    spc_error error;
    spc::plan plan = std::move(f.plan);
    spc::map map = std::move(f.map);
    spc::memory out = std::move(f.out);
    spc::net_plan empty;

    ck_assert(plan && !f.plan && map && !f.map && out && !f.out);
    ck_assert_int_eq(f.out.bytes(), 0);
    plan.execute(map, f.buffers);
    assert_says(thrown_by([&] { f.plan.execute(map, f.buffers); }).what(),
                "the handle is empty");
    ck_assert_int_eq(f.plan.execute(map, f.buffers, nullptr, error),
                     SPC_EINVAL);
    assert_says(error.text, "the handle is empty");
    assert_says(thrown_by([&] { plan.execute(f.map, f.buffers); }).what(),
                "map");
    assert_says(thrown_by([&] { f.out.upload(std::vector<int>(1)); }).what(),
                "does not fit");
    ck_assert_int_eq(empty.replay(nullptr, error), SPC_EINVAL);
    ck_assert_int_eq(empty.check(nullptr, error), SPC_EINVAL);
    ck_assert_int_eq(empty.memory_bytes(), 0);
    ck_assert_int_eq(empty.steps(), 0);
    spc::context gone = std::move(f.ctx);
    ck_assert_int_eq(f.ctx.synchronize(error), SPC_EINVAL);
    assert_says(thrown_by([&] { spc::coords set(f.ctx, f.scene); }).what(),
                "the handle is empty");
    assert_says(thrown_by([&] { spc::memory some(f.ctx, 4); }).what(),
                "the handle is empty");
    spc::net net;
    ck_assert_int_eq(net.init_params(1, error), SPC_EINVAL);
    assert_says(error.text, "net");
}
END_TEST

START_TEST(handles_are_assigned_and_given_away)
{
    fixture f;
    spc::scene other(spc::span<const std::int32_t>{}, "none");
    spc::plan &same = f.plan;

    f.plan = std::move(same);
    ck_assert(f.plan);
    f.scene = std::move(other); /* frees the cube */
    ck_assert_int_eq(f.scene.rows(), 0);
    spc_scene *mine = f.scene.release();
    ck_assert(!f.scene && mine != nullptr);
    spc::scene again(mine);
    again.reset();
    ck_assert(!again);
    spc::memory &itself = f.out;
    f.out = std::move(itself);
    ck_assert_int_eq(f.out.bytes(), ROWS * CHANNELS * sizeof(float));
    f.out = spc::memory(f.ctx, 64);
    ck_assert_int_eq(f.out.bytes(), 64);
}
END_TEST

START_TEST(copies_stay_in_their_memory)
{
    fixture f;
    spc::memory small(f.ctx, 12);
    std::array<std::int32_t, 3> three = {1, 2, 3}, back = {};
    std::int32_t last[1];
    spc_error error;

    small.upload(three);
    small.download(back);
    ck_assert(three == back);
    small.download(last, error, 8);
    ck_assert_int_eq(last[0], 3);
    ck_assert_int_eq(small.upload(three, error, 4), SPC_ERANGE);
    ck_assert_int_eq(small.download(last, error, 9), SPC_ERANGE);
    ck_assert_int_eq(small.download(last, error, SIZE_MAX), SPC_ERANGE);
    ck_assert_int_eq(
        thrown_by([&] { small.upload(std::vector<int>(4)); }).status(),
        SPC_ERANGE);
    ck_assert_int_eq(thrown_by([] {
                         spc::scene odd(std::vector<std::int32_t>(5));
                     }).status(),
                     SPC_EINVAL);
}
END_TEST

/* ---- networks and the database ------------------------------------------- */

static spc::net small_net()
{
    spc::net net("small");
    auto input = spc::init<spc_net_input>();
    auto layer = spc::init<spc_net_layer>();

    input.channels = CHANNELS;
    input.dtype = SPC_F32;
    layer.name = "first";
    layer.conv = spc::parse<spc_conv>(layer_text);
    layer.in = net.input(input);
    spc_tensor x = net.conv(layer);
    x = net.feature("act", spc::parse<spc_feature>("act=relu,c=4,dtype=f32"),
                    x);
    net.output(x, "features");
    std::vector<float> weights(27 * CHANNELS * CHANNELS, 0.5f);
    net.set_param("first", SPC_OPERAND_WEIGHTS, weights);
    return net;
}

START_TEST(a_network_runs_from_the_database)
{
    char file[] = "/tmp/hppXXXXXX";
    auto where = spc::init<spc_ctx_options>();
    close(mkstemp(file));
    remove(file);
    where.device = "cpu";
    where.database = file;
    spc::context ctx(where);
    small_net().store(ctx, "small");
    spc::net net = spc::net::open(ctx, "small");
    auto options = spc::init<spc_net_options>();
    options.capacity = ROWS;
    std::fill(options.high + 1, options.high + 4, SIDE - 1);
    spc::net_plan plan(ctx, net, options);
    net.reset(); /* the plan keeps the network alive */
    auto at = spc::memory::of(ctx, cube());
    auto in = spc::memory::of(ctx, std::vector<float>(ROWS * CHANNELS, 1));
    spc::memory memory(ctx, plan.memory_bytes());
    auto buffers = spc::init<spc_net_buffers>();
    buffers.coords = at.as<std::int32_t>();
    buffers.rows = ROWS;
    buffers.features = in.data();
    buffers.memory = memory.data();
    plan.capture(buffers);
    long before = allocations;
    plan.replay();
    plan.check();
    plan.execute(buffers);
    ck_assert_int_eq(allocations - before, 0);
    std::vector<float> sums(ROWS * CHANNELS);
    memory.download(sums, {}, plan.output(0).offset);
    check_sums(sums);
    ck_assert_int_gt(plan.steps(), 1);
    ck_assert_int_eq(thrown_by([&] { plan.output(1); }).status(), SPC_EINVAL);
    ck_assert_int_eq(thrown_by([&] { plan.step(-1); }).status(), SPC_EINVAL);
    remove(file);
}
END_TEST

START_TEST(the_database_is_listed_and_moved)
{
    char file[] = "/tmp/hppXXXXXX", other[sizeof(file) + 8];
    auto where = spc::init<spc_ctx_options>();
    int nets = 0;
    close(mkstemp(file));
    remove(file);
    std::snprintf(other, sizeof(other), "%s.pack.db", file);
    where.device = "cpu";
    where.database = file;
    spc::context ctx(where);
    spc::database db(ctx);
    small_net().store(ctx, "one");
    small_net().store(ctx, "two");
    db.each_net([&](const spc_net_row &row) {
        nets += std::strcmp(row.name, "one") == 0 ||
                std::strcmp(row.name, "two") == 0;
    });
    ck_assert_int_eq(nets, 2);
    /* An exception that the listener throws reaches the caller unchanged. */
    bool arrived = false;
    try {
        db.each_net([&](const spc_net_row &) -> void { throw 7; });
    } catch (int seven) {
        arrived = seven == 7;
    }
    ck_assert(arrived);
    ck_assert_int_gt(db.verify([](const spc_db_fault &fault) {
        ck_abort_msg("%s", fault.reason);
    }),
                     1);
    std::string text = db.export_text(SPC_DB_RECORDS);
    ck_assert_int_gt((int)text.size(), 10);
    spc_db_exchange same = db.import_text(text);
    ck_assert_int_eq(same.counts[SPC_DB_REJECTED], 0);
    ck_assert_int_eq(db.pack(other).files, 1);
    db.remove_net("one");
    ck_assert_int_eq(thrown_by([&] { db.remove_net("one"); }).status(),
                     SPC_ENOTFOUND);
    std::string command = std::string("rm -f ") + file + "*";
    ck_assert_int_eq(std::system(command.c_str()), 0);
}
END_TEST

START_TEST(a_network_learns)
{
    fixture f;
    spc::training training(f.ctx, small_net(), f.scene);
    auto grad = spc::memory::of(f.ctx, std::vector<float>(ROWS * CHANNELS, 1));
    std::vector<float> sums(ROWS * CHANNELS);

    ck_assert_int_eq(training.rows(), ROWS);
    const void *out = training.forward(f.in.data());
    ck_assert_int_eq(spc_memory_download(sums.data(), f.ctx.get(), out,
                                         sums.size() * sizeof(float)),
                     SPC_OK);
    check_sums(sums);
    training.backward(grad.data());
    training.descend(0.5f);
    spc::training none;
    ck_assert_int_eq(thrown_by([&] { none.descend(1); }).status(), SPC_EINVAL);
}
END_TEST

int main()
{
    static const TTest *const tests[] = {
        a_layer_gives_the_sums,
        reserved_sets_serve_frames,
        objects_outlive_their_context,
        the_hot_path_allocates_nothing,
        regrouped_sets_and_outputs,
        points_become_voxels_and_clouds,
        operators_on_features,
        texts_are_read_and_written,
        spans_see_arrays,
        a_failure_is_an_exception_or_a_status,
        moved_handles_are_refused,
        handles_are_assigned_and_given_away,
        copies_stay_in_their_memory,
        a_network_runs_from_the_database,
        the_database_is_listed_and_moved,
        a_network_learns,
    };
    Suite *suite = suite_create("spc.hpp");
    TCase *all = tcase_create("hpp");

    setenv("SPC_DATABASE", "", 1);
    setenv("SPC_SHIPPED", "", 1);
    for (const TTest *test : tests)
        tcase_add_test(all, test);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
