// SPDX-License-Identifier: Apache-2.0
#include "link/secret.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/text.h"

namespace netpipe {
namespace {

constexpr std::int64_t patience_ns = 10'000'000'000;  // for what writes the token into a pipe, all of it

Result<std::string> read_token_file(const std::string& file) {
  // O_NONBLOCK, and a time limit below: a pipe that nobody writes to must not stop us here.
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts{};
  if (!descriptor || ::fstat(descriptor.get(), &facts) != 0) {
    return usage("the token file " + file + " cannot be read: " + std::strerror(errno));
  }
  if (S_ISREG(facts.st_mode) && (facts.st_mode & (S_IRGRP | S_IROTH)) != 0) {
    std::array<char, 8> mode{};
    std::snprintf(mode.data(), mode.size(), "%04o", facts.st_mode & 07777U);
    return usage("the token file " + file + " can be read by others than its owner (mode " + mode.data() +
                 "); run: chmod 600 " + file + ", and choose a new token if others may have seen this one");
  }
  const std::int64_t deadline_ns = now_ns() + patience_ns;
  std::string text(max_token_bytes + 64, '\0');  // room for blanks around it; anything longer is too long below
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::read(descriptor.get(), text.data() + filled, text.size() - filled);
    const int error = got < 0 ? errno : 0;
    if (error == EINTR) continue;
    pollfd waiting{descriptor.get(), POLLIN, 0};
    const auto left_ms = static_cast<int>(std::max<std::int64_t>(deadline_ns - now_ns(), 0) / 1'000'000);
    if (error == EAGAIN && ::poll(&waiting, 1, left_ms) > 0) continue;
    if (error != 0) return usage("the token file " + file + " cannot be read: " + std::strerror(error));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  text.resize(filled);
  return text;
}

}  // namespace

Result<std::string> read_token(const std::string& file) {
  std::string text;
  std::string source;
  if (file.empty()) {
    const char* value = std::getenv(token_variable);
    if (value == nullptr) {
      return usage(
          "no token was given; copy the one that netpipe serve made to ~/.config/netpipe/token, name its file with "
          "--token-file, or set " +
          std::string(token_variable));
    }
    text = value;
    source = std::string("the environment variable ") + token_variable;
  } else {
    Result<std::string> content = read_token_file(file);
    if (!content) return content.failure();
    text = *content;
    source = "the token file " + file;
  }
  std::string token(trim(text));
  if (token.size() < min_token_bytes || token.size() > max_token_bytes) {
    return usage("the token in " + source + " has " + std::to_string(token.size()) + " characters; it needs " +
                 std::to_string(min_token_bytes) + " to " + std::to_string(max_token_bytes));
  }
  return token;
}

// Up to 256 bytes come whole (getrandom(2)).
Result<Nonce> fresh_nonce() {
  Nonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size())) return nonce;
  return failed(std::string("the system gives no random numbers: ") + std::strerror(errno));
}

}  // namespace netpipe
