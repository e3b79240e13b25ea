// SPDX-License-Identifier: Apache-2.0
#include "relay/wire.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"

namespace netpipe::relay {

namespace {

constexpr std::size_t largest_frame = 65536;  // an MTU of 65521, the header of Ethernet and one for a VLAN
constexpr std::size_t header = 14;            // destination, source, type
constexpr int most_reads = 16;                // of one card, before the others and what is due have their turn
// Looking at the clock takes a processor from the hosts. For a message and its answer that is right: they are to be on
// time. Of a stream it takes what the hosts need to send and receive it, and how late one of its frames is matters
// less.
constexpr std::size_t few_frames = 4;
constexpr std::int64_t billion = 1'000'000'000;

// How much earlier than due it asks to be woken: as late as wake-ups came lately. From there on it looks at the clock.
class Margin {
 public:
  void woke(std::int64_t late_ns) {
    late_ns = std::clamp(late_ns, least, most);
    margin_ns_ = std::max(late_ns, margin_ns_ - margin_ns_ / 64);
  }
  [[nodiscard]] std::int64_t ns() const { return margin_ns_; }

 private:
  static constexpr std::int64_t least = 2'000;
  static constexpr std::int64_t most = 200'000;
  std::int64_t margin_ns_ = 50'000;
};

}  // namespace

Wire::Wire(const Network& network, std::vector<Card> cards, std::vector<Descriptor> taps)
    : network_(network), cards_(std::move(cards)), taps_(std::move(taps)), reading_(buffer()) {
  for (std::size_t host = 0; host < taps_.size(); ++host) {
    ports_.emplace_back(network_);
    losses_.emplace_back(network_, host);
  }
}

std::unique_ptr<std::byte[]> Wire::buffer() {
  if (spare_.empty()) return std::make_unique_for_overwrite<std::byte[]>(largest_frame);
  std::unique_ptr<std::byte[]> one = std::move(spare_.back());
  spare_.pop_back();
  return one;
}

void Wire::read_some(std::size_t from) {
  for (int i = 0; i < most_reads; ++i) {
    const ssize_t size = read(taps_[from].get(), reading_.get(), largest_frame);
    if (size <= 0) break;  // nothing more, or the card is down
    ++counts_.read;
    if (losses_[from].next()) {
      ++counts_.lost;
    } else if (static_cast<std::size_t>(size) >= header) {
      send(from, static_cast<std::uint32_t>(size));
    }
  }
}

void Wire::send(std::size_t from, std::uint32_t size) {
  const std::int64_t now = now_ns();
  const bool everybody = (std::to_integer<unsigned>(reading_[0]) & 1U) != 0;  // broadcast and multicast
  bool known = everybody;
  for (std::size_t to = 0; to < cards_.size(); ++to) {
    if (to == from) continue;
    if (everybody) {
      std::unique_ptr<std::byte[]> copy = buffer();
      std::memcpy(copy.get(), reading_.get(), size);
      put(to, std::move(copy), size, now);
    } else if (std::memcmp(reading_.get(), cards_[to].address.data(), cards_[to].address.size()) == 0) {
      known = true;
      put(to, std::exchange(reading_, buffer()), size, now);
      break;
    }
  }
  if (!known) ++counts_.astray;
}

void Wire::put(std::size_t to, std::unique_ptr<std::byte[]> bytes, std::uint32_t size, std::int64_t now_ns) {
  if (ports_[to].take(bytes, size, now_ns)) return;
  ++counts_.dropped;
  spare_.push_back(std::move(bytes));
}

std::int64_t Wire::deliver() {
  std::int64_t next = -1;
  for (std::size_t to = 0; to < ports_.size(); ++to) {
    std::int64_t now = now_ns();
    while (std::optional<Frame> frame = ports_[to].give(now)) {
      if (write(taps_[to].get(), frame->bytes.get(), frame->size) == static_cast<ssize_t>(frame->size)) {
        ++counts_.delivered;
        counts_.late_ns.add(static_cast<double>(now - frame->due_ns));
      } else {
        ++counts_.dropped;
      }
      spare_.push_back(std::move(frame->bytes));
      now = now_ns();
    }
    if (const std::optional<std::int64_t> due = ports_[to].next_due_ns()) {
      next = next < 0 ? *due : std::min(next, *due);
    }
  }
  return next;
}

std::size_t Wire::on_their_way() const {
  std::size_t frames = 0;
  for (const Port& port : ports_) frames += port.frames();
  return frames;
}

Outcome Wire::run(const std::atomic<bool>& stop, std::atomic<bool>& report, void (*on_report)(const Counts&, void*),
                  void* context) {
  std::vector<pollfd> waiting;
  for (const Descriptor& tap : taps_) waiting.push_back({tap.get(), POLLIN, 0});
  sigset_t none;
  sigemptyset(&none);
  Margin margin;
  while (!stop) {
    const std::int64_t next = deliver();
    const bool on_time = network_.bits_per_s <= 0 || on_their_way() <= few_frames;
    const std::int64_t early_ns = on_time ? margin.ns() : 0;
    const std::int64_t sleep_ns = next < 0 ? INT64_MAX : std::max<std::int64_t>(0, next - now_ns() - early_ns);
    const timespec limit{sleep_ns / billion, sleep_ns % billion};
    const std::int64_t asleep = now_ns();
    const int ready = ppoll(waiting.data(), waiting.size(), next < 0 ? nullptr : &limit, &none);
    if (ready < 0 && errno != EINTR) return failed(std::string("ppoll: ") + std::strerror(errno));
    if (report.exchange(false)) on_report(counts_, context);
    if (ready == 0 && sleep_ns > 0 && early_ns > 0) margin.woke(now_ns() - asleep - sleep_ns);
    for (std::size_t from = 0; ready > 0 && from < waiting.size(); ++from) {
      if ((waiting[from].revents & POLLIN) != 0) read_some(from);
    }
  }
  return ok();
}

}  // namespace netpipe::relay
