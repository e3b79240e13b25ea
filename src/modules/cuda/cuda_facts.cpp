// SPDX-License-Identifier: Apache-2.0
// What cuda reports of the device, of the way to it and of the driver.
#include <array>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <string>

#include "cuda_endpoint.h"
#include "netpipe/waiting.h"

namespace netpipe::cuda {
namespace {

std::string line_of(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// The first 1000 of 12040 is the major version, the rest ten times the minor one.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

class Device {
 public:
  Device(const np_endpoint& e, const np_cuda_device& device) : cuda_(e.cuda), device_(device.device) {}

  [[nodiscard]] bool attribute(CUdevice_attribute which, int& value) const {
    return cuda_.cuDeviceGetAttribute(&value, which, device_) == CUDA_SUCCESS;
  }
  [[nodiscard]] std::string name() const {
    std::array<char, 256> text{};
    return cuda_.cuDeviceGetName(text.data(), text.size(), device_) == CUDA_SUCCESS ? text.data() : "";
  }
  // "0000:3b:00.0", as the kernel writes it.
  [[nodiscard]] std::string pci() const {
    std::array<char, 64> text{};
    if (cuda_.cuDeviceGetPCIBusId(text.data(), text.size(), device_) != CUDA_SUCCESS) return "";
    std::string id = text.data();
    for (char& c : id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return id;
  }

 private:
  const np_cuda& cuda_;
  CUdevice device_;
};

void tell_device(const Device& device, const std::string& prefix, np_emit emit, void* to) {
  const auto text = [&](const char* name, const std::string& value) {
    if (!value.empty()) np_emit_text(emit, to, (prefix + name).c_str(), value.c_str());
  };
  text("name", device.name());
  const std::string pci = device.pci();
  text("pci", pci);
  // The driver's interface does not tell the speed of the link, and the kernel does.
  text("pci_speed", line_of("/sys/bus/pci/devices/" + pci + "/current_link_speed"));
  text("pci_width", line_of("/sys/bus/pci/devices/" + pci + "/current_link_width"));
  text("numa_node", line_of("/sys/bus/pci/devices/" + pci + "/numa_node"));
  int major = 0, minor = 0, value = 0;
  if (device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major) &&
      device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor)) {
    text("compute_capability", std::to_string(major) + "." + std::to_string(minor));
  }
  if (device.attribute(CU_DEVICE_ATTRIBUTE_ECC_ENABLED, value)) {
    np_emit_bool(emit, to, (prefix + "ecc").c_str(), value);
  }
  if (device.attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, value)) {
    np_emit_integer(emit, to, (prefix + "copy_engines").c_str(), value, "");
  }
}

// The driver ranks the links between two devices, and does not name them.
void tell_link(const np_endpoint& e, np_emit emit, void* to) {
  int value = 0;
  const auto ask = [&](CUdevice_P2PAttribute which) {
    return e.cuda.cuDeviceGetP2PAttribute(&value, which, e.device.device, e.peer.device) == CUDA_SUCCESS;
  };
  if (ask(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)) np_emit_integer(emit, to, "p2p_performance_rank", value, "");
  if (ask(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)) np_emit_bool(emit, to, "p2p_native_atomics", value);
}

}  // namespace

void describe(np_endpoint* e, np_emit emit, void* to) {
  const np_value* const options = e->context->options;
  np_emit_text(emit, to, "kind", options[kKind].text);
  if (!e->p2p && e->kind() != Kind::d2d) np_emit_text(emit, to, "host", options[kHost].text);
  const bool yields = e->wait() == Wait::poll && e->context->oversubscribed != 0;
  np_emit_text(emit, to, "wait", yields ? np_waiting_word(NP_WAIT_YIELD) : options[kWait].text);
  np_emit_text(emit, to, "copied_by", e->p2p ? "cuMemcpyPeerAsync" : "cuMemcpyAsync");
  np_emit_integer(emit, to, "device", options[kDevice].number, "");
  tell_device(Device(*e, e->device), "device_", emit, to);
  if (e->p2p) {
    np_emit_integer(emit, to, "peer", options[kPeer].number, "");
    tell_device(Device(*e, e->peer), "peer_", emit, to);
    tell_link(*e, emit, to);
  }
  int version = 0;
  if (e->cuda.cuDriverGetVersion(&version) == CUDA_SUCCESS) {
    np_emit_text(emit, to, "driver_cuda_version", version_text(version).c_str());
  }
  const std::string module = line_of("/sys/module/nvidia/version");
  if (!module.empty()) np_emit_text(emit, to, "driver_version", module.c_str());
}

}  // namespace netpipe::cuda
