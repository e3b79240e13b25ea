// SPDX-License-Identifier: Apache-2.0
#include "serving/admission.h"

#include <sys/socket.h>

#include <initializer_list>

#include "link/handshake.h"

namespace netpipe {
namespace {

bool send_whole(const Descriptor& to, std::string_view bytes) {
  return ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
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

bool let_in(const Descriptor& control, const Admission& admission) { return send_whole(control, admission.accept); }

Ending turn_away(const Descriptor& control, const Failure& why) {
  send_whole(control, refusal(why));
  return {static_cast<int>(why.exit), false, why.sentence};
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
