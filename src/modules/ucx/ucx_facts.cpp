// SPDX-License-Identifier: Apache-2.0
#include "ucx_facts.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "ucx_context.h"
#include "ucx_protocols.h"
#include "ucx_text.h"

namespace netpipe::ucx {
namespace {

// "sysv" and "memory" of "0:sysv/memory.0".
Lane lane_of(const std::string& text) {
  const size_t colon = text.find(':'), slash = text.find('/');
  if (colon == std::string::npos || slash == std::string::npos || slash < colon) return {};
  return {text.substr(colon + 1, slash - colon - 1), text.substr(slash + 1, text.rfind('.') - slash - 1), ""};
}

// The lines on an endpoint, and those of the worker, where newer versions have their tables.
std::vector<std::string> printed(const np_endpoint* e, int peer) {
  ucp_ep_h to = e->to[static_cast<size_t>(peer)];
  return lines(said_by([&](FILE* file) {
    if (to != nullptr) ucp_ep_print_info(to, file);
    ucp_worker_print_info(e->worker, file);
  }));
}

Protocols protocols_of(const np_endpoint* e, int peer) {
  return read_protocols(printed(e, peer), e->on_device ? "cuda" : "host");
}

void describe_protocols(const np_endpoint* e, np_emit emit, void* to) {
  for (const auto& [fact, text] : protocols_of(e, opposite(e))) np_emit_text(emit, to, fact.c_str(), text.c_str());
}

// "sysv/memory (am), cma/memory (rma_bw)".
std::string text_of(const std::vector<Lane>& lanes) {
  std::string text;
  for (const Lane& lane : lanes) {
    text += (text.empty() ? "" : ", ") + lane.transport + "/" + lane.device + " (" + lane.uses + ")";
  }
  return text;
}

int socket_number(int fd, int name) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return getsockopt(fd, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
}

std::string place_of(const sockaddr_storage& at) {
  char text[INET6_ADDRSTRLEN] = "";
  if (at.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(at).sin_addr, text, sizeof text);
  } else if (at.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(at).sin6_addr, text, sizeof text);
  }
  return text;
}

void describe_sockets(const np_endpoint* e, np_emit emit, void* to) {
  if (e->sockets.empty()) return;
  const int fd = e->sockets.front();
  sockaddr_storage near{}, far{};
  socklen_t bytes = sizeof near;
  getsockname(fd, reinterpret_cast<sockaddr*>(&near), &bytes);
  bytes = sizeof far;
  getpeername(fd, reinterpret_cast<sockaddr*>(&far), &bytes);
  np_emit_text(emit, to, "local_address", place_of(near).c_str());
  np_emit_text(emit, to, "peer_address", place_of(far).c_str());
  np_emit_integer(emit, to, "sndbuf_kernel_bytes", socket_number(fd, SO_SNDBUF), "bytes");
  np_emit_integer(emit, to, "rcvbuf_kernel_bytes", socket_number(fd, SO_RCVBUF), "bytes");
}

}  // namespace

int opposite(const np_endpoint* e) {
  const int mirrored = e->context->nranks - 1 - e->context->rank;
  return mirrored == e->context->rank ? 0 : mirrored;
}

std::vector<Lane> lanes_to(const np_endpoint* e, int peer) {
  std::vector<Lane> found;
  for (const std::string& line : printed(e, peer)) {
    const std::vector<std::string> all = words(line, ' ');
    if (all.size() < 3 || !all[1].starts_with("lane[")) continue;
    Lane lane = lane_of(all[2]);
    const auto tells = [](const std::string& word) { return word.find("sysdev[") != std::string::npos; };
    auto word = std::ranges::find_if(all, tells);
    if (word != all.end()) ++word;
    if (word != all.end() && *word == "seg") word += std::min<std::ptrdiff_t>(2, all.end() - word);  // newer versions
    for (; word != all.end(); ++word) lane.uses += (lane.uses.empty() ? "" : " ") + *word;
    found.push_back(lane);
  }
  return found;
}

std::string message_protocols(const np_endpoint* e, int peer) {
  return protocols_of(e, peer)[std::string("protocols_") + e->text(kApi)];
}

std::vector<int> tcp_connections() {
  std::vector<int> found;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* const entry = readdir(folder)) {
    const int fd = static_cast<int>(std::strtol(entry->d_name, nullptr, 10));
    int protocol = 0;
    socklen_t bytes = sizeof protocol;
    sockaddr_storage far{};
    socklen_t far_bytes = sizeof far;
    if (fd <= 0 || getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) != 0 || protocol != IPPROTO_TCP) continue;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&far), &far_bytes) == 0) found.push_back(fd);
  }
  closedir(folder);
  std::ranges::sort(found);
  return found;
}

LibraryVersion library() {
  return {.library = "UCX", .built = dotted(UCP_API_MAJOR, UCP_API_MINOR), .found = ucp_get_version_string()};
}

void describe(np_endpoint* e, np_emit emit, void* to) {
  const np_value* options = e->context->options;
  library().describe(emit, to);
  describe_waiting(options[kWait], options[kSpin], e->context->oversubscribed != 0, emit, to);
  np_emit_text(emit, to, "api", options[kApi].text);
  if (e->api == Api::am) np_emit_text(emit, to, "deliver", options[kDeliver].text);
  np_emit_text(emit, to, "memory", options[kMemory].text);
  if (e->on_device) {
    np_emit_text(emit, to, "memory_types", e->memory_types.c_str());
    np_cuda_describe(&e->device, emit, to);
  }
  np_emit_text(emit, to, "errors", options[kErrors].text);
  const std::vector<Lane> lanes = lanes_to(e, opposite(e));
  np_emit_text(emit, to, "transports", text_of(lanes).c_str());
  np_emit_text(emit, to, "transports_to_itself", text_of(lanes_to(e, e->context->rank)).c_str());
  std::string below;
  for (const Lane& lane : lanes) {
    const std::vector<std::string> uses = words(lane.uses, ' ');
    if (std::ranges::find(uses, "am") != uses.end()) below = layer_of(lane.transport);
  }
  if (!below.empty()) np_emit_text(emit, to, "below", below.c_str());
  for (const Setting& one : e->settings) np_emit_text(emit, to, ("UCX_" + one.given).c_str(), one.value.c_str());
  describe_protocols(e, emit, to);
  describe_sockets(e, emit, to);
}

}  // namespace netpipe::ucx
