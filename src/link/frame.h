// SPDX-License-Identifier: Apache-2.0
// One message of the rendezvous on the wire: eight bytes of header ("NPR", the type, the length of the payload as four
// bytes, the highest first) and the payload. docs/reference/protocol.md is the same in words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace netpipe {

enum class FrameType : std::uint8_t {
  hello = 1,         // client: protocol version, ABI, nonce
  challenge = 2,     // server: protocol version, ABI, nonce
  client_proof = 3,  // client: hash of its plan, tag
  server_proof = 4,  // server: tag
  plan = 5,          // client: the plan's text
  accept = 6,        // server: tag, host name
  refuse = 7,        // server, instead of any of its messages: exit code, sentence
};

inline constexpr std::size_t frame_header_bytes = 8;
inline constexpr std::size_t max_hello_bytes = 256;  // of payload, of any version of the protocol
inline constexpr std::size_t max_plan_bytes = std::size_t{64} * 1024;
inline constexpr std::size_t max_host_bytes = 255;
inline constexpr std::size_t max_sentence_bytes = 1024;

std::string make_frame(FrameType type, std::string_view payload);

// Four bytes, the highest first.
std::string big_endian(std::uint32_t number);
std::uint32_t read_big_endian(std::span<const std::byte> bytes);  // the first four of at least four

// Collects one frame at a time in memory that somebody else owns. It never allocates, and what a header says is held
// against the fixed limits of its type before a byte of its payload is taken.
class FrameReader {
 public:
  enum class Progress { incomplete, whole, wrong };

  // Begins anew: one of these types is welcome next, and its payload goes to room.
  void expect(std::initializer_list<FrameType> types, std::span<std::byte> room);
  // How many bytes the header, or the payload after it, still lacks. A reader that takes no more than this from a
  // stream leaves in it what comes after the frame.
  [[nodiscard]] std::size_t wants() const;
  // Once wrong, always wrong until expect. More bytes than the frame has are wrong: both sides wait for each other's
  // answers.
  Progress take(std::span<const std::byte> bytes);

  [[nodiscard]] FrameType type() const { return type_; }                         // of a whole frame
  [[nodiscard]] std::span<const std::byte> payload() const { return payload_; }  // of a whole frame; lies in room
  [[nodiscard]] std::string_view complaint() const { return complaint_; }        // what is wrong; static text

 private:
  Progress wrong(std::string_view complaint);
  bool header_fits();

  std::uint32_t welcome_ = 0;  // bit n: type n
  std::span<std::byte> room_;
  std::array<std::byte, frame_header_bytes> header_{};
  std::size_t header_filled_ = 0;
  std::size_t filled_ = 0;  // bytes of payload so far
  FrameType type_ = FrameType::hello;
  std::span<std::byte> payload_;
  std::string_view complaint_;
};

}  // namespace netpipe
