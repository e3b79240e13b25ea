// SPDX-License-Identifier: Apache-2.0
#include "link/secret.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/descriptor.h"
#include "base/text.h"

namespace netpipe {
namespace {

constexpr int pipe_patience_ms = 10'000;  // for what writes the token, a password manager perhaps

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
  std::string text(max_token_bytes + 64, '\0');  // room for blanks around it; anything longer is too long below
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::read(descriptor.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    pollfd waiting{descriptor.get(), POLLIN, 0};
    if (got < 0 && errno == EAGAIN && ::poll(&waiting, 1, pipe_patience_ms) > 0) continue;
    if (got < 0) return usage("the token file " + file + " cannot be read: " + std::strerror(errno));
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
          "no token was given; name its file with --token-file, or put the token into the environment variable " +
          std::string(token_variable) + " (to make one: head -c 24 /dev/urandom | base64)");
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

Result<Nonce> fresh_nonce() {
  Nonce nonce;
  std::size_t filled = 0;
  while (filled < nonce.size()) {
    const ssize_t got = ::getrandom(nonce.data() + filled, nonce.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(std::string("the system gives no random numbers: ") + std::strerror(errno));
    filled += static_cast<std::size_t>(got);
  }
  return nonce;
}

}  // namespace netpipe
