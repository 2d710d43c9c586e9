/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bev_node.cpp - a ROS 2 node that subscribes to "points" (PointCloud2), runs a
 * stored network on each message, and publishes one output as "bev"
 * (Float32MultiArray). README.md lists the parameters.
 */
#include "pointcloud2.h"

#include <spc.hpp>

#include <rclcpp/rclcpp.hpp>
#include <sensor_msgs/msg/point_cloud2.hpp>
#include <std_msgs/msg/float32_multi_array.hpp>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using sensor_msgs::msg::PointCloud2;
using std_msgs::msg::Float32MultiArray;

/* ---- the network, without ROS -------------------------------------------- */

/* Converts a binary16 (exactly) or a bfloat16 to float. */
static float float_of(std::uint16_t bits, spc_dtype dtype)
{
    std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
    float out;

    if (dtype == SPC_F16) {
        /* 2^112 changes the exponent's bias from 15 to 127, also for subnormal
         * numbers. */
        const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
        std::memcpy(&out, &magnitude, sizeof(out));
        if (magnitude >= 0x7c00u << 13)
            out = (bits & 0x3ffu) != 0 ? NAN : INFINITY;
        else
            out = std::ldexp(out, 112);
        return (bits & 0x8000u) != 0 ? -out : out;
    }
    std::memcpy(&out, &word, sizeof(out));
    return out;
}

struct settings {
    std::string database, device, network;
    std::vector<spc_pointcloud2_column> columns;
    int output;
    std::int64_t voxels, points;
};

/* A network with its memory. Its run is captured once as a graph. */
class frame_runner
{
  public:
    explicit frame_runner(const settings &s)
        : ctx_(open(s)), net_(spc::net::open(ctx_, s.network.c_str())),
          columns_(s.columns), capacity_(s.points),
          plan_(ctx_, net_, options(s)), output_(plan_.output(s.output)),
          points_(ctx_, bytes(s)), count_(ctx_, sizeof(std::int32_t)),
          memory_(ctx_, plan_.memory_bytes()), rows_(bytes(s) / sizeof(float))
    {
        const auto *input = net_.info().input;
        if (input->channels != static_cast<int>(columns_.size()))
            throw spc::error(
                SPC_EINVAL,
                ("the network takes points of " +
                 std::to_string(input->channels) + " numbers, but " +
                 std::to_string(columns_.size()) + " fields were named")
                    .c_str());
        if (!output_.dense || output_.plane[0] == 0 ||
            (output_.dtype != SPC_F32 && output_.dtype != SPC_F16 &&
             output_.dtype != SPC_BF16))
            throw spc::error(SPC_EINVAL,
                             (std::string("the output '") + output_.name +
                              "' is not the plane of a bev layer in f32, f16 "
                              "or bf16")
                                 .c_str());
        raw_.resize(elements() * (output_.dtype == SPC_F32 ? 4 : 2));
        auto buffers = spc::init<spc_net_buffers>();
        buffers.points = points_.as<float>();
        buffers.count = count_.as<std::int32_t>();
        buffers.memory = memory_.data();
        plan_.capture(buffers);
    }
    const spc_net_output &output() const noexcept
    {
        return output_;
    }
    std::size_t elements() const noexcept
    {
        return static_cast<std::size_t>(output_.batches * output_.elements);
    }
    /* Runs one frame; `plane` receives the output. */
    spc_pointcloud2_counts run(std::vector<float> &plane,
                               const spc_pointcloud2 &cloud)
    {
        spc_pointcloud2_counts counts;
        spc_error e;
        if (spc_pointcloud2_read(rows_.data(), &counts, &cloud, columns_.data(),
                                 static_cast<int>(columns_.size()), capacity_,
                                 &e) != SPC_OK)
            throw spc::error(e.status, e.text);
        const std::int32_t count[] = {static_cast<std::int32_t>(counts.rows)};
        points_.upload(spc::span<const float>(
            rows_.data(),
            static_cast<std::size_t>(counts.rows) * columns_.size()));
        count_.upload(count);
        plan_.replay();
        plan_.check();
        memory_.download(raw_, {}, output_.offset);
        plane.resize(elements());
        if (output_.dtype == SPC_F32) {
            std::memcpy(plane.data(), raw_.data(), raw_.size());
            return counts;
        }
        for (std::size_t i = 0; i < plane.size(); i++) {
            std::uint16_t bits;
            std::memcpy(&bits, &raw_[2 * i], sizeof(bits));
            plane[i] = float_of(bits, output_.dtype);
        }
        return counts;
    }

  private:
    static spc::context open(const settings &s)
    {
        auto options = spc::init<spc_ctx_options>();
        options.database = s.database.empty() ? nullptr : s.database.c_str();
        options.device = s.device.empty() ? nullptr : s.device.c_str();
        return spc::context(options);
    }
    static spc_net_options options(const settings &s)
    {
        if (s.voxels < 1 || s.points < 1)
            throw spc::error(SPC_EINVAL, "the parameters 'voxels' and 'points' "
                                         "must be at least 1");
        auto options = spc::init<spc_net_options>();
        options.capacity = s.voxels;
        options.points = s.points;
        return options;
    }
    static std::size_t bytes(const settings &s)
    {
        return static_cast<std::size_t>(s.points) * s.columns.size() *
               sizeof(float);
    }
    spc::context ctx_;
    spc::net net_;
    std::vector<spc_pointcloud2_column> columns_;
    std::int64_t capacity_;
    spc::net_plan plan_;
    spc_net_output output_;
    spc::memory points_, count_, memory_;
    std::vector<float> rows_;
    std::vector<unsigned char> raw_;
};

/* ---- the node ------------------------------------------------------------ */

class bev_node : public rclcpp::Node
{
  public:
    bev_node() : rclcpp::Node("spctune_bev")
    {
        runner_ = std::make_unique<frame_runner>(read_settings());
        shape_message();
        publisher_ = create_publisher<Float32MultiArray>("bev", rclcpp::QoS(1));
        subscription_ = create_subscription<PointCloud2>(
            "points", rclcpp::SensorDataQoS(),
            [this](PointCloud2::ConstSharedPtr cloud) { receive(*cloud); });
    }

  private:
    settings read_settings()
    {
        settings s;
        s.database = declare_parameter<std::string>("database", "");
        s.device = declare_parameter<std::string>("device", "");
        s.network = declare_parameter<std::string>("network", "");
        s.output =
            static_cast<int>(declare_parameter<std::int64_t>("output", 0));
        s.voxels = declare_parameter<std::int64_t>("voxels", 100000);
        s.points = declare_parameter<std::int64_t>("points", 300000);
        fields_ = declare_parameter<std::vector<std::string>>(
            "fields", {"x", "y", "z", "intensity"});
        scales_ = declare_parameter<std::vector<double>>("scales", {});
        absent_ = declare_parameter<std::vector<double>>("absent", {});
        for (std::size_t i = 0; i < fields_.size(); i++)
            s.columns.push_back(
                {fields_[i].c_str(),
                 static_cast<float>(i < scales_.size() ? scales_[i] : 1),
                 static_cast<float>(i < absent_.size() ? absent_[i] : NAN)});
        return s;
    }
    void shape_message()
    {
        const spc_net_output &o = runner_->output();
        const std::int64_t sizes[] = {o.batches, o.plane[0], o.plane[1],
                                      o.plane[2]};
        static const char *const labels[] = {"batch", "channel", "row",
                                             "column"};
        std::size_t stride = runner_->elements();
        message_.layout.dim.resize(4);
        for (std::size_t i = 0; i < 4; i++) {
            auto &dim = message_.layout.dim[i];
            dim.label = labels[i];
            dim.size = static_cast<std::uint32_t>(sizes[i]);
            dim.stride = static_cast<std::uint32_t>(stride);
            stride /= static_cast<std::size_t>(sizes[i]);
        }
    }
    void receive(const PointCloud2 &cloud)
    try {
        fields_of_message_.clear();
        for (const auto &field : cloud.fields)
            fields_of_message_.push_back(
                {field.name.c_str(), field.offset, field.datatype});
        spc_pointcloud2 view = {};
        view.fields = fields_of_message_.data();
        view.field_count = fields_of_message_.size();
        view.height = cloud.height;
        view.width = cloud.width;
        view.point_step = cloud.point_step;
        view.row_step = cloud.row_step;
        view.is_bigendian = cloud.is_bigendian;
        view.data = cloud.data.data();
        view.data_bytes = cloud.data.size();
        const auto counts = runner_->run(message_.data, view);
        if (cloud.is_dense && counts.dropped > 0)
            RCLCPP_WARN_ONCE(get_logger(),
                             "a cloud says is_dense, but %lld of its points "
                             "are not finite; they are dropped",
                             static_cast<long long>(counts.dropped));
        /* The message has no header, so the label of its first dimension
         * identifies the cloud. */
        message_.layout.dim[0].label =
            "batch " + cloud.header.frame_id + " " +
            std::to_string(cloud.header.stamp.sec) + " " +
            std::to_string(cloud.header.stamp.nanosec);
        publisher_->publish(message_);
    } catch (const spc::error &e) {
        RCLCPP_ERROR_THROTTLE(get_logger(), *get_clock(), 1000,
                              "frame left out: %s", e.what());
    }

    std::vector<std::string> fields_;
    std::vector<double> scales_, absent_;
    std::unique_ptr<frame_runner> runner_;
    std::vector<spc_pointcloud2_field> fields_of_message_;
    Float32MultiArray message_;
    rclcpp::Publisher<Float32MultiArray>::SharedPtr publisher_;
    rclcpp::Subscription<PointCloud2>::SharedPtr subscription_;
};

int main(int argc, char **argv)
{
    rclcpp::init(argc, argv);
    int status = 0;
    try {
        rclcpp::spin(std::make_shared<bev_node>());
    } catch (const spc::error &e) {
        RCLCPP_FATAL(rclcpp::get_logger("spctune_bev"), "%s", e.what());
        status = 1;
    }
    rclcpp::shutdown();
    return status;
}
