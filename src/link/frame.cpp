// SPDX-License-Identifier: Apache-2.0
#include "link/frame.h"

#include <algorithm>

namespace netpipe {
namespace {

struct Shape {
  std::size_t least, most;  // bytes of payload
};

// By type, from 1. A HELLO may be of another version and longer; its first eight bytes are the same in all of them.
constexpr std::array<Shape, 7> shapes = {{{8, max_hello_bytes},
                                          {40, 40},
                                          {64, 64},
                                          {32, 32},
                                          {1, max_plan_bytes},
                                          {32, 32 + max_host_bytes},
                                          {4 + 1, 4 + max_sentence_bytes}}};

constexpr std::array<std::byte, 3> magic = {std::byte{'N'}, std::byte{'P'}, std::byte{'R'}};

}  // namespace

std::string big_endian(std::uint32_t number) {
  std::string text(4, '\0');
  for (int i = 0; i < 4; ++i) text[static_cast<std::size_t>(i)] = static_cast<char>(number >> (24 - 8 * i));
  return text;
}

std::uint32_t read_big_endian(std::span<const std::byte> bytes) {
  std::uint32_t number = 0;
  for (const std::byte one : bytes.first<4>()) number = number << 8 | std::to_integer<std::uint32_t>(one);
  return number;
}

std::string make_frame(FrameType type, std::string_view payload) {
  std::string frame;
  frame.reserve(frame_header_bytes + payload.size());
  frame += "NPR";
  frame += static_cast<char>(type);
  frame += big_endian(static_cast<std::uint32_t>(payload.size()));
  frame += payload;
  return frame;
}

void FrameReader::expect(std::initializer_list<FrameType> types, std::span<std::byte> room) {
  *this = FrameReader();
  for (const FrameType type : types) welcome_ |= 1U << static_cast<unsigned>(type);
  room_ = room;
}

std::size_t FrameReader::wants() const {
  if (!complaint_.empty()) return 0;
  if (header_filled_ < header_.size()) return header_.size() - header_filled_;
  return payload_.size() - filled_;
}

FrameReader::Progress FrameReader::take(std::span<const std::byte> bytes) {
  if (!complaint_.empty()) return Progress::wrong;
  if (header_filled_ < header_.size()) {
    const std::size_t some = std::min(wants(), bytes.size());
    std::copy_n(bytes.begin(), some, header_.begin() + static_cast<std::ptrdiff_t>(header_filled_));
    header_filled_ += some;
    bytes = bytes.subspan(some);
    if (header_filled_ < header_.size()) return Progress::incomplete;
    if (!header_fits()) return Progress::wrong;
  }
  const std::size_t some = std::min(wants(), bytes.size());
  std::copy_n(bytes.begin(), some, payload_.begin() + static_cast<std::ptrdiff_t>(filled_));
  filled_ += some;
  if (filled_ < payload_.size()) return Progress::incomplete;
  if (some < bytes.size()) return wrong("it sent more than the protocol has it say before an answer");
  return Progress::whole;
}

bool FrameReader::header_fits() {
  if (!std::equal(magic.begin(), magic.end(), header_.begin())) {
    wrong("it does not speak netpipe's rendezvous protocol");
    return false;
  }
  const auto type = std::to_integer<std::size_t>(header_[3]);
  if (type < 1 || type > shapes.size() || (welcome_ >> type & 1U) == 0) {
    wrong("it sent a message that has no place here");
    return false;
  }
  const std::size_t length = read_big_endian(std::span(header_).last<4>());
  const Shape& shape = shapes[type - 1];
  if (length < shape.least || length > shape.most || length > room_.size()) {
    wrong("it sent a message of a length that the protocol does not have");
    return false;
  }
  type_ = static_cast<FrameType>(type);
  payload_ = room_.first(length);
  return true;
}

FrameReader::Progress FrameReader::wrong(std::string_view complaint) {
  complaint_ = complaint;
  return Progress::wrong;
}

}  // namespace netpipe
