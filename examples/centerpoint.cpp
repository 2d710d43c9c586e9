/* SPDX-License-Identifier: Apache-2.0 */
/*
 * centerpoint.cpp - a detector's backbone in C++: opens a network from a
 * database, captures it once, runs frames, prints the time of each.
 *
 *     centerpoint_cpp DATABASE NETWORK DEVICE SCAN...
 *
 * `spctune net add` stores the network, with its grid (--voxel, --range). A
 * scan is any file of points that spctune reads; of each point as many numbers
 * are taken as the network has channels, x, y and z first. The times include
 * the copy of the points to the device.
 */
#include <spc.hpp>
#include <spc/lab.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace
{

constexpr std::int64_t most_voxels = 160000, most_points = 1 << 20;

/* Reads the points of a file into host memory. */
struct scan : spc_point_rows {
    scan(const char *path, int channels) : spc_point_rows{}
    {
        spc::on_error().run([&](spc_error *e) {
            return spc_point_rows_load(this, path, channels, e);
        });
    }
    scan(const scan &) = delete;
    scan &operator=(const scan &) = delete;
    ~scan()
    {
        spc_point_rows_release(this);
    }
    spc::span<const float> numbers() const
    {
        return {values, static_cast<std::size_t>(rows * columns)};
    }
};

/* A network with its memory, ready for frames. */
class backbone
{
  public:
    backbone(const spc::context &ctx, const char *name)
        : net_(spc::net::open(ctx, name)), channels(net_.info().input->channels),
          plan_(ctx, net_, options()),
          points_(ctx, most_points * channels * sizeof(float)),
          count_(ctx, sizeof(std::int32_t)), memory_(ctx, plan_.memory_bytes())
    {
        auto buffers = spc::init<spc_net_buffers>();

        buffers.points = points_.as<float>();
        buffers.count = count_.as<std::int32_t>();
        buffers.memory = memory_.data();
        plan_.capture(buffers);
    }
    /* Runs one frame. Returns the number of voxels. */
    std::int64_t run(const scan &points)
    {
        const std::int32_t count[] = {static_cast<std::int32_t>(points.rows)};

        points_.upload(points.numbers());
        count_.upload(count);
        plan_.replay();
        plan_.check();
        return plan_.step(0).rows_out;
    }

  private:
    static spc_net_options options()
    {
        auto out = spc::init<spc_net_options>();

        out.capacity = most_voxels;
        out.points = most_points;
        return out;
    }
    spc::net net_;

  public:
    const int channels; /* numbers of a point */

  private:
    spc::net_plan plan_;
    spc::memory points_, count_, memory_;
};

double milliseconds_since(std::chrono::steady_clock::time_point start)
{
    return std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now() - start)
        .count();
}

void run_frames(backbone &net, char **paths, int count)
{
    std::vector<double> times;

    for (int i = 0; i < count; i++) {
        scan points(paths[i], net.channels);
        auto start = std::chrono::steady_clock::now();
        std::int64_t voxels = net.run(points);
        times.push_back(milliseconds_since(start));
        std::printf("%s: %lld points, %lld voxels, %.3f ms\n", paths[i],
                    static_cast<long long>(points.rows),
                    static_cast<long long>(voxels), times.back());
    }
    std::sort(times.begin(), times.end());
    std::printf("%d frames: median %.3f ms, worst %.3f ms\n", count,
                times[times.size() / 2], times.back());
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 5) {
        std::fprintf(stderr, "usage: centerpoint_cpp DATABASE NETWORK DEVICE "
                             "SCAN...\n");
        return 2;
    }
    try {
        auto where = spc::init<spc_ctx_options>();

        where.database = argv[1];
        where.need_database = true;
        where.device = argv[3];
        auto start = std::chrono::steady_clock::now();
        spc::context ctx(where);
        backbone net(ctx, argv[2]);
        std::printf("ready after %.1f ms\n", milliseconds_since(start));
        run_frames(net, argv + 4, argc - 4);
    } catch (const spc::error &e) {
        std::fprintf(stderr, "centerpoint_cpp: %s\n", e.what());
        return spc_status_exit_code(e.status());
    }
}
