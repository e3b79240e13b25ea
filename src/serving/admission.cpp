// SPDX-License-Identifier: Apache-2.0
#include "serving/admission.h"

#include <sys/socket.h>

#include <initializer_list>

#include "link/handshake.h"

namespace netpipe {
namespace {

bool send_whole(int fd, std::string_view bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

template <typename T>
void append(std::string& text, const T& plain) {
  text.append(reinterpret_cast<const char*>(&plain), sizeof plain);
}

template <typename T>
bool take(std::string_view& text, T& plain) {
  if (text.size() < sizeof plain) return false;
  text.copy(reinterpret_cast<char*>(&plain), sizeof plain);
  text.remove_prefix(sizeof plain);
  return true;
}

}  // namespace

Ending measure_admitted(Descriptor control, const Admission& admission, const Check& check, const Handler& handler) {
  if (const Outcome fine = check(admission.plan_text, admission.bounds); !fine) {
    send_whole(control.get(), refusal(fine.failure()));
    return {static_cast<int>(fine.failure().exit), false, fine.failure().sentence};
  }
  if (!send_whole(control.get(), admission.accept)) {
    return {static_cast<int>(Exit::failed), true, "the client went away before it was accepted"};
  }
  return handler(control.release(), admission);
}

std::string admission_text(const Admission& a) {
  std::string text;
  append(text, a.bounds);
  append(text, a.keys);
  for (const std::string* one : {&a.plan_text, &a.peer_host, &a.local_address, &a.job, &a.accept}) {
    append(text, one->size());
    text += *one;
  }
  return text;
}

std::optional<Admission> parse_admission(std::string_view text) {
  Admission a;
  if (!take(text, a.bounds) || !take(text, a.keys)) return std::nullopt;
  for (std::string* one : {&a.plan_text, &a.peer_host, &a.local_address, &a.job, &a.accept}) {
    std::size_t bytes = 0;
    if (!take(text, bytes) || text.size() < bytes) return std::nullopt;
    *one = text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return text.empty() ? std::optional(std::move(a)) : std::nullopt;
}

}  // namespace netpipe
