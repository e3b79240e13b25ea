// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/pages.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <string>

#include "base/text.h"
#include "machine/files.h"

namespace netpipe {
namespace {

constexpr int advice_collapse = 25;  // MADV_COLLAPSE, of Linux 6.1: headers may be older

std::string reason() { return std::strerror(errno); }

std::string nodes_text() {
  const auto nodes = Files(Host{}).line("/sys/devices/system/node/has_memory");
  return nodes ? "; nodes of this host with memory: " + *nodes : "";
}

Failure no_huge_pages(const std::string& why) {
  const auto enabled = Files(Host{}).chosen("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::string setting = enabled ? ", and transparent_hugepage/enabled is " + *enabled : "";
  return unavailable("pages=huge: " + why + setting + "; leave pages out, or write always or madvise there");
}

Outcome bind_to(char* base, std::uint64_t bytes, int node) {
  constexpr std::size_t bits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, most_node / bits + 1> mask{};
  mask[static_cast<std::size_t>(node) / bits] |= 1UL << (static_cast<std::size_t>(node) % bits);
  // The kernel reads one bit less than it is told. What is there already, of a layer that writes first, is moved.
  const long bound = syscall(SYS_mbind, base, bytes, MPOL_BIND, mask.data(), mask.size() * bits + 1, MPOL_MF_MOVE);
  if (bound == 0) return ok();
  return unavailable("node=" + std::to_string(node) +
                     ": message memory cannot be bound to this NUMA node (mbind: " + reason() + ")" + nodes_text());
}

Result<int> node_of(char* page) {
  int node = -1;
  if (syscall(SYS_get_mempolicy, &node, nullptr, 0, page, MPOL_F_NODE | MPOL_F_ADDR) == 0) return node;
  return unavailable("node: it cannot be read back where message memory is (get_mempolicy: " + reason() + ")");
}

Outcome all_on(char* base, std::uint64_t bytes, int wanted) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  for (std::uint64_t at = 0; at < bytes; at += page) {
    const Result<int> node = node_of(base + at);
    if (!node) return node.failure();
    if (*node == wanted) continue;
    return unavailable("node=" + std::to_string(wanted) + ": message memory is on node " + std::to_string(*node) +
                       " from byte " + std::to_string(at) + " on: its pages cannot be moved" + nodes_text());
  }
  return ok();
}

// Linux counts it for each mapping. Neighbours with the same advice may be one mapping, so more may be counted than the
// memory has.
Result<std::uint64_t> huge_bytes_of(char* base, std::uint64_t bytes, const PageChoice& choice) {
  constexpr std::size_t most_text = 64U << 20U;
  const auto smaps = Files(Host{}).read("/proc/self/smaps", most_text);
  const std::string setting = choice.kind == Pages::huge ? "pages=huge" : "pages=small";
  if (!smaps) return unavailable(setting + ": /proc/self/smaps, which says what pages memory has, cannot be read");
  const auto begin = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(base));
  const MappedPages mapped = mapped_pages(*smaps, begin, begin + bytes);
  if (mapped.shared) {
    return unavailable(setting +
                       ": the layer has its messages in memory that other processes map as well, each with "
                       "pages of its own; leave pages out");
  }
  const std::uint64_t huge = std::min(mapped.huge_bytes, bytes);
  if (choice.kind == Pages::huge && huge < bytes) {
    return no_huge_pages(size_text(huge) + " of " + size_text(bytes) + " bytes of message memory are on huge pages");
  }
  if (choice.kind == Pages::small && huge > 0) {
    return unavailable(setting + ": " + size_text(huge) + " of " + size_text(bytes) +
                       " bytes of message memory are on huge pages, which the layer has chosen; leave pages out");
  }
  return huge;
}

template <typename Number>
bool parse(std::string_view text, Number& number, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Outcome choose_pages(char* base, std::uint64_t bytes, const PageChoice& choice) {
  if (choice.node >= 0) {
    if (Outcome bound = bind_to(base, bytes, choice.node); !bound) return bound;
  }
  if (choice.kind == Pages::huge && madvise(base, bytes, MADV_HUGEPAGE) != 0) {
    return no_huge_pages("the kernel has none (madvise: " + reason() + ")");
  }
  // A kernel without huge pages refuses this, and has nothing else.
  if (choice.kind == Pages::small) (void)madvise(base, bytes, MADV_NOHUGEPAGE);
  return ok();
}

Result<PagesFound> found_pages(char* base, std::uint64_t bytes, const PageChoice& choice) {
  PagesFound found;
  if (choice.kind != Pages::automatic) {
    // What the layer has written before it was asked, and what the kernel had no huge page for at that moment.
    if (choice.kind == Pages::huge) (void)madvise(base, bytes, advice_collapse);
    const Result<std::uint64_t> huge = huge_bytes_of(base, bytes, choice);
    if (!huge) return huge.failure();
    found.huge_bytes = *huge;
  }
  if (choice.node >= 0) {
    if (Outcome there = all_on(base, bytes, choice.node); !there) return there.failure();
    found.node = choice.node;
  }
  return found;
}

// A mapping is a line "7f0000000000-7f0000200000 rw-p ...", and then lines "AnonHugePages:  2048 kB".
MappedPages mapped_pages(std::string_view smaps, std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t kib = 1024;
  MappedPages found;
  bool inside = false;
  for (const std::string& line : split(smaps, '\n')) {
    const std::vector<std::string> words = split_words(line);
    if (words.size() < 2) continue;
    const std::string& first = words.front();
    const std::size_t dash = first.find('-');
    if (dash != std::string::npos && first.back() != ':') {
      std::uint64_t from = 0, to = 0;
      const std::string_view range = first;
      inside =
          parse(range.substr(0, dash), from, 16) && parse(range.substr(dash + 1), to, 16) && from < end && begin < to;
      found.shared = found.shared || (inside && words[1].find('s') != std::string::npos);
    } else if (inside && (first == "AnonHugePages:" || first == "ShmemPmdMapped:" || first == "FilePmdMapped:")) {
      std::uint64_t huge = 0;
      if (parse(std::string_view(words[1]), huge, 10)) found.huge_bytes += huge * kib;
    }
  }
  return found;
}

}  // namespace netpipe
