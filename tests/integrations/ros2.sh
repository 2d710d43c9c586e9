#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ros2.sh - the package integrations/ros2 without ROS: it is built against
# packages that are written here, with what the node uses of rclcpp, and gets
# messages from them. That finds errors of the node, not differences from ROS.
#
#     sh tests/integrations/ros2.sh SOURCES SPCTUNE CMAKE COMPILER LIBSPC
set -eu
sources=$1 spctune=$2 cmake=$3 compiler=$4 libspc=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/rclcpp" "$work/sensor_msgs/msg" "$work/std_msgs/msg"
export SPC_DATABASE="$work/ros.db" SPC_SHIPPED=

cat >"$work/std_msgs/msg/float32_multi_array.hpp" <<'END'
#pragma once
#include <cstdint>
#include <string>
#include <vector>
namespace std_msgs::msg {
struct Dim { std::string label; std::uint32_t size, stride; };
struct Layout { std::vector<Dim> dim; std::uint32_t data_offset; };
struct Float32MultiArray { Layout layout; std::vector<float> data; };
}
END
cat >"$work/sensor_msgs/msg/point_cloud2.hpp" <<'END'
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>
namespace sensor_msgs::msg {
struct Time { std::int32_t sec; std::uint32_t nanosec; };
struct Header { Time stamp; std::string frame_id; };
struct PointField { std::string name; std::uint32_t offset;
                    std::uint8_t datatype; std::uint32_t count; };
struct PointCloud2 {
    using ConstSharedPtr = std::shared_ptr<const PointCloud2>;
    Header header; std::uint32_t height, width;
    std::vector<PointField> fields; bool is_bigendian;
    std::uint32_t point_step, row_step;
    std::vector<std::uint8_t> data; bool is_dense;
};
}
END
cat >"$work/rclcpp/rclcpp.hpp" <<'END'
/* The stand-in: parameters come from the environment, spin() delivers clouds
 * and looks at what is published. */
#include <sensor_msgs/msg/point_cloud2.hpp>
#include <std_msgs/msg/float32_multi_array.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
namespace rclcpp {
using Cloud = sensor_msgs::msg::PointCloud2;
using Array = std_msgs::msg::Float32MultiArray;
inline std::function<void(Cloud::ConstSharedPtr)> callback;
inline std::vector<Array> published;
inline int errors, warnings;
struct QoS { explicit QoS(int) {} };
struct SensorDataQoS : QoS { SensorDataQoS() : QoS(5) {} };
struct Logger {};
struct Clock {};
inline Logger get_logger(const char *) { return {}; }
template <class M> struct Publisher {
    using SharedPtr = std::shared_ptr<Publisher>;
    void publish(const M &m) { published.push_back(m); }
};
template <class M> struct Subscription {
    using SharedPtr = std::shared_ptr<Subscription>;
};
struct Node {
    explicit Node(const char *) {}
    template <class T> T declare_parameter(const std::string &name,
                                           const T &value) {
        const char *text = std::getenv(("PARAM_" + name).c_str());
        if constexpr (std::is_same_v<T, std::string>)
            return text ? text : value;
        else if constexpr (std::is_same_v<T, std::int64_t>)
            return text ? std::atoll(text) : value;
        else
            return value;
    }
    template <class M> typename Publisher<M>::SharedPtr
    create_publisher(const char *, QoS) {
        return std::make_shared<Publisher<M>>();
    }
    template <class M, class F> typename Subscription<M>::SharedPtr
    create_subscription(const char *, QoS, F f) {
        callback = f;
        return std::make_shared<Subscription<M>>();
    }
    Logger get_logger() const { return {}; }
    std::shared_ptr<Clock> get_clock() { return std::make_shared<Clock>(); }
};
template <class... A> void log(int &n, A... a) {
    n++, std::printf(a...), std::puts("");
}
#define RCLCPP_WARN_ONCE(logger, ...)                                          \
    ((void)logger, rclcpp::log(rclcpp::warnings, __VA_ARGS__))
#define RCLCPP_ERROR_THROTTLE(logger, clock, ms, ...)                          \
    ((void)logger, (void)clock, rclcpp::log(rclcpp::errors, __VA_ARGS__))
#define RCLCPP_FATAL(logger, ...)                                              \
    ((void)logger, rclcpp::log(rclcpp::errors, __VA_ARGS__))
inline void init(int, char **) {}
inline void shutdown() {}

/* A cloud of big- or little-endian floats, padded; one point is NaN. */
inline std::shared_ptr<Cloud> cloud_of(bool big, std::uint32_t pad) {
    auto c = std::make_shared<Cloud>();
    c->header = {{7, 8}, "lidar"};
    c->height = 4, c->width = 500, c->is_bigendian = big, c->is_dense = true;
    const char *names[] = {"intensity", "z", "y", "x"};
    for (std::uint32_t i = 0; i < 4; i++)
        c->fields.push_back({names[i], pad + 4 * i, 7, 1});
    c->point_step = 16 + 2 * pad, c->row_step = 500 * c->point_step + pad;
    c->data.resize(4 * c->row_step);
    for (std::uint32_t p = 0; p < 2000; p++) {
        float v[] = {0.25f * (float)(p % 4), (float)(p % 7) / 2 - 1.5f,
                     (float)(p % 59) / 2 - 14, (float)(p % 61) / 2 - 14};
        if (p == 3) v[0] = std::strtof("nan", nullptr);
        for (std::uint32_t i = 0; i < 4; i++) {
            std::uint8_t b[4];
            std::memcpy(b, &v[i], 4);
            std::uint8_t *at = &c->data[p / 500 * c->row_step +
                                        p % 500 * c->point_step + pad + 4 * i];
            for (int k = 0; k < 4; k++) at[k] = b[big ? 3 - k : k];
        }
    }
    return c;
}
template <class N> void spin(std::shared_ptr<N>) {
    callback(cloud_of(false, 0));
    callback(cloud_of(true, 5));
    auto cut = cloud_of(false, 0);
    cut->data.pop_back();
    callback(cut);
    auto empty = cloud_of(false, 0);
    empty->width = 0, empty->row_step = 0, empty->data.clear();
    callback(empty);
    callback(cloud_of(false, 1));
    auto sum = [](const Array &a) {
        double out = 0; for (float f : a.data) out += f; return out; };
    if (published.size() != 4) std::puts("FAILED: published"), std::exit(1);
    const auto &a = published[0];
    std::printf("%s: %u x %u x %u, sum %.6g; empty %.6g\n",
                a.layout.dim[0].label.c_str(), a.layout.dim[1].size,
                a.layout.dim[2].size, a.layout.dim[3].size, sum(a),
                sum(published[2]));
    if (a.data != published[1].data || a.data != published[3].data ||
        sum(a) == 0 || sum(published[2]) == sum(a) || errors != 1 ||
        warnings == 0 || a.layout.dim[0].stride != a.data.size() ||
        a.layout.dim[0].label != "batch lidar 7 8")
        std::puts("FAILED: planes or logs differ"), std::exit(1);
}
}
END

cat >"$work/small.lua" <<'END'
network "small"
local x = input {channels = 4, shape = {64, 64, 8}, voxel = {0.5, 0.5, 0.5},
                 low = {-16, -16, -2}, high = {16, 16, 2}}
x = conv(x, "subm,cout=16,k=3,epilogue=scale+bias+relu", {name = "first"})
x = conv(x, "conv,cout=32,k=3,stride=2,padding=1,rule=footprint,epilogue=bias+relu",
         {name = "down"})
output(x, "rows")
output(feature(x, "bev,order=zyx"), "bev")
END

# Makes stand-ins for the packages that the node's CMakeLists.txt needs.
package() {
    mkdir -p "$work/cmake"
    cat >"$work/cmake/$1Config.cmake"
    echo "set(PACKAGE_VERSION_COMPATIBLE TRUE)" \
        >"$work/cmake/$1ConfigVersion.cmake"
}
echo 'function(ament_package)
endfunction()' | package ament_cmake
for name in rclcpp sensor_msgs std_msgs; do
    echo "add_library($name::$name INTERFACE IMPORTED)
set($(echo $name)_TARGETS $name::$name)
target_include_directories($name::$name INTERFACE $work)" | package $name
done
echo "add_library(spc::spc INTERFACE IMPORTED)
target_include_directories(spc::spc INTERFACE $sources/include)
target_link_libraries(spc::spc INTERFACE $libspc -lm)" | package spc
"$cmake" -S "$sources/integrations/ros2" -B "$work/build" \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/cmake" \
    -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" \
    -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >"$work/log" 2>&1 &&
    "$cmake" --build "$work/build" >>"$work/log" 2>&1 &&
    "$cmake" --install "$work/build" --prefix "$work/ws" >>"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
# CMake drops library paths when it installs. colcon keeps them, so keep them
# here.
LD_LIBRARY_PATH=$(dirname "$libspc")
export LD_LIBRARY_PATH
node=$work/ws/lib/spctune_ros/bev_node

export PARAM_device=cpu PARAM_output=1 PARAM_voxels=4000 PARAM_points=3000
for dtype in f32 f16; do
    "$spctune" net add "$work/small.lua" --name "small_$dtype" --dtype $dtype \
        --seed 1 >"$work/log"
    PARAM_network=small_$dtype "$node" | tee "$work/out"
    grep -q "frame left out: the data have 31999 bytes" "$work/out"
    grep -q "1 of its points are not finite" "$work/out"
done

# A network that cannot run is reported before the first message.
refused() {
    env "$@" "$node" >"$work/out" && { echo "FAILED: $*"; exit 1; }
    cat "$work/out"
    grep -q "$sentence" "$work/out"
}
sentence="has no network 'none'" refused PARAM_network=none
sentence="the output 'rows' is not the plane of a bev layer" \
    refused PARAM_network=small_f32 PARAM_output=0
sentence="must be at least 1" refused PARAM_network=small_f32 PARAM_points=-1
echo "the node runs"
