// SPDX-License-Identifier: Apache-2.0
// What layers with messages on a CUDA device share (src/modules/kit/gpu/cuda_memory.h), over the stand-in for the
// driver. It is compiled as a layer is on a machine without NVIDIA's headers: with the declarations of
// kit/gpu/cuda_driver.h alone.
#include "kit/gpu/cuda_memory.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "netpipe/module.h"

namespace {

class CudaMemory : public testing::Test {
 protected:
  void SetUp() override {
    // Once it is loaded, the loader knows it by the name of the driver's library.
    if (dlopen(NETPIPE_STAND_INS "/libcuda.so.1", RTLD_NOW) == nullptr) {
      GTEST_SKIP() << "no stand-in is built here: cuda.h is missing";
    }
    context.message = message.data();
    context.message_bytes = message.size();
    ASSERT_EQ(NP_OK, np_cuda_load(&cuda, message.data(), message.size())) << message.data();
  }

  void TearDown() override { unsetenv("FAKE_CUDA_DEVICES"); }

  std::array<char, 512> message{};
  np_context context{};
  np_cuda cuda{};
};

TEST_F(CudaMemory, RanksOfAHostHaveItsDevicesInTurn) {
  setenv("FAKE_CUDA_DEVICES", "3", 1);
  for (int place = 0; place < 7; ++place) {
    np_cuda_device device{};
    ASSERT_EQ(NP_OK, np_cuda_open_for(&device, &cuda, &context, -1, place)) << message.data();
    EXPECT_EQ(place % 3, device.number);
    np_cuda_close(&device);
  }
}

TEST_F(CudaMemory, ThePlaceIsThatOnTheHostWhereItIsKnown) {
  context.rank = 5;
  context.host_rank = 2;
  context.size = sizeof context;
  EXPECT_EQ(2, np_cuda_place(&context));
  context.size = offsetof(np_context, host_rank);  // of an older netpipe
  EXPECT_EQ(5, np_cuda_place(&context));
}

TEST_F(CudaMemory, ADeviceThatWasNamedIsThatOfEveryRank) {
  for (int place = 0; place < 3; ++place) {
    np_cuda_device device{};
    ASSERT_EQ(NP_OK, np_cuda_open_for(&device, &cuda, &context, 1, place)) << message.data();
    EXPECT_EQ(1, device.number);
    np_cuda_close(&device);
  }
}

TEST_F(CudaMemory, ADeviceThatIsNotThereIsASentence) {
  np_cuda_device device{};
  EXPECT_EQ(NP_UNAVAILABLE, np_cuda_open_for(&device, &cuda, &context, 7, 0));
  EXPECT_STREQ("there is no CUDA device 7: this host has 2, counted from 0", message.data());
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  EXPECT_EQ(NP_UNAVAILABLE, np_cuda_open_for(&device, &cuda, &context, -1, 0));
  EXPECT_NE(std::string::npos, std::string(message.data()).find("there is no CUDA device here")) << message.data();
}

TEST_F(CudaMemory, BytesGoThereAndBackAndTheFirstThatDiffersIsFound) {
  constexpr std::size_t bytes = NP_CUDA_PIECE + 4321;
  np_cuda_device device{};
  void* memory = nullptr;
  std::size_t equal = 0;
  ASSERT_EQ(NP_OK, np_cuda_open_for(&device, &cuda, &context, -1, 1)) << message.data();
  ASSERT_EQ(NP_OK, np_cuda_alloc(&device, bytes, &memory)) << message.data();
  EXPECT_EQ(0U, reinterpret_cast<std::uintptr_t>(memory) % NP_CUDA_PAGE);
  std::vector<char> sent(bytes), back(bytes);
  for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<char>(i * 7 + i / 251);
  ASSERT_EQ(NP_OK, np_cuda_copy(&device, memory, sent.data(), bytes)) << message.data();
  ASSERT_EQ(NP_OK, np_cuda_compare(&device, memory, sent.data(), bytes, &equal)) << message.data();
  EXPECT_EQ(bytes, equal);
  ASSERT_EQ(NP_OK, np_cuda_fill(&device, static_cast<char*>(memory) + bytes - 1, sent[bytes - 1] + 1, 1));
  ASSERT_EQ(NP_OK, np_cuda_compare(&device, memory, sent.data(), bytes, &equal)) << message.data();
  EXPECT_EQ(bytes - 1, equal);
  ASSERT_EQ(NP_OK, np_cuda_copy(&device, back.data(), memory, bytes)) << message.data();
  EXPECT_EQ(sent[bytes - 2], back[bytes - 2]);
  EXPECT_NE(sent[bytes - 1], back[bytes - 1]);
  np_cuda_free(&device, memory);
  np_cuda_close(&device);
}

TEST_F(CudaMemory, ARecordNamesTheDevice) {
  using Facts = std::map<std::string, std::string>;
  np_cuda_device device{};
  Facts facts;
  ASSERT_EQ(NP_OK, np_cuda_open_for(&device, &cuda, &context, 1, 0)) << message.data();
  np_cuda_describe(
      &device,
      [](void* to, const np_fact* fact) {
        const std::string value = fact->kind == NP_FACT_TEXT ? fact->text : std::to_string(fact->integer);
        (*static_cast<Facts*>(to))[fact->name] = value;
      },
      &facts);
  EXPECT_EQ((Facts{{"device", "1"}, {"device_name", "stand-in 1"}}), facts);
  np_cuda_close(&device);
}

}  // namespace
