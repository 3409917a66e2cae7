#include "distbelief/model/device.h"

#include <gtest/gtest.h>

#include <vector>

namespace distbelief::model {
namespace {

torch::Tensor counted_to_six() { return torch::arange(6, torch::kFloat32); }

TEST(Device, IsKnownByName) {
  EXPECT_EQ(device_of("cpu"), torch::Device(torch::kCPU));
  EXPECT_THROW(device_of("cuda"), Error);
  EXPECT_THROW(device_of(""), Error);
}

TEST(Device, ATensorThatIsThereStaysTheSame) {
  const torch::Tensor tensor = counted_to_six().set_requires_grad(true);
  EXPECT_TRUE(on_device(tensor, torch::kCPU).is_same(tensor));
  EXPECT_TRUE(on_host(tensor).is_same(tensor));
  EXPECT_FALSE(on_device(torch::Tensor(), torch::kCPU).defined());
  EXPECT_TRUE(on_device(tensor, torch::kMeta).is_meta());
}

TEST(Device, ACopyOnTheHostHasNoHistory) {
  const torch::Tensor turned = counted_to_six().set_requires_grad(true).view({2, 3}).t();
  EXPECT_TRUE(turned.requires_grad());
  EXPECT_FALSE(on_host(turned).requires_grad());
}

TEST(Device, HostMemoryIsBorrowed) {
  std::vector<std::int64_t> memory{1, 2, 3, 4};
  const torch::Tensor tensor = borrow_host(memory.data(), {2, 2}, torch::kInt64);
  memory[3] = 7;
  EXPECT_EQ(tensor[1][1].item<std::int64_t>(), 7);
  EXPECT_EQ(host_bytes(tensor).data(), reinterpret_cast<std::byte*>(memory.data()));
  EXPECT_EQ(host_bytes(tensor).size(), 32u);
  EXPECT_EQ(host_elements<std::int64_t>(tensor).data(), memory.data());
}

TEST(Device, BytesAreWrittenInTheOrderOfElements) {
  const std::vector<float> values{5, 4, 3, 2, 1, 0};
  const torch::Tensor flat = counted_to_six(), turned = counted_to_six().view({3, 2}).t();
  const std::int64_t version = flat._version();
  write_from_host(flat, std::as_bytes(std::span(values)));
  write_from_host(turned, std::as_bytes(std::span(values)));
  const torch::Tensor wanted = torch::tensor(values);
  EXPECT_TRUE(flat.equal(wanted));
  EXPECT_TRUE(turned.flatten().equal(wanted));
  EXPECT_EQ(flat._version(), version);
}

TEST(HostValues, AreTheTensorsOwnMemory) {
  const torch::Tensor tensor = counted_to_six();
  const HostValues<float> values(tensor);
  EXPECT_EQ(values.data(), tensor.data_ptr<float>());
  EXPECT_EQ(values.size(), 6u);
}

TEST(HostValues, AreInTheOrderOfElementsAndOutliveTheTensor) {
  const HostValues<float> values(counted_to_six().view({2, 3}).t());
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values[1], 3);
}

}  // namespace
}  // namespace distbelief::model
