// SPDX-License-Identifier: Apache-2.0
// Which protocol UCX uses from which size on, read off what it prints. Text alone: no call of UCX is made here.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "ucx_text.h"

namespace netpipe::ucx {

// "egr/short from 0, egr/bcopy from 93, rndv from 8256" of "0..<egr/short>..93..<egr/bcopy>..8256..<rndv>..(inf)".
inline std::string steps(const std::string& text) {
  std::string told;
  size_t at = 0;
  for (size_t open = text.find('<'); open != std::string::npos; open = text.find('<', at)) {
    const size_t close = text.find('>', open);
    if (close == std::string::npos) break;
    std::string from = text.substr(at, open - at);
    std::erase(from, '.');
    if (!told.empty()) told += ", ";
    told += text.substr(open + 1, close - open - 1) + " from " + from;
    at = close + 1;
  }
  return told;
}

inline std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

// Names in UCX's first way to say it, in its second, and in ours.
struct Operation {
  const char *of, *call, *fact;
};
inline constexpr Operation kOperations[] = {
    {"tag_send", "ucp_tag_send", "protocols_tag"}, {"stream_send", "ucp_stream_send", "protocols_stream"},
    {"am_send", "ucp_am_send", "protocols_am"},    {"put", "ucp_put", "protocols_put"},
    {"get", "ucp_get", "protocols_get"},
};

using Protocols = std::map<std::string, std::string>;

inline void add(Protocols& all, const std::string& fact, const std::string& text, const char* between) {
  std::string& told = all[fact];
  if (told.find(text) == std::string::npos) told += (told.empty() ? "" : between) + text;
}

// Protocols of the first kind: a line for each operation, "#  tag_send: 0..<egr/short>..93..", those of puts with the
// lane that they take: "# put[0]: ...".
inline void read_lines(const std::vector<std::string>& all, Protocols& found) {
  for (const std::string& line : all) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos || line.find("..<") == std::string::npos) continue;
    const std::string name = trimmed(line.substr(1, colon - 1));
    for (const Operation& one : kOperations) {
      const std::string indexed = std::string(one.of) + "[";
      if (name == one.of) found[one.fact] = steps(line.substr(colon + 2));
      if (!name.starts_with(indexed)) continue;
      add(found, one.fact,
          "lane " + name.substr(indexed.size(), name.size() - indexed.size() - 1) + ": " +
              steps(line.substr(colon + 2)),
          "; ");
    }
  }
}

// Whether a table is about plain calls of this, and messages in this memory ("host", "cuda"): those
// "(fast-completion)", "(multi)" and "with reply flag" are others.
inline bool is_about(const std::string& line, const std::string& call, const std::string& memory) {
  for (const char* plain : {"*() from ", "* from ", "*() into ", "* into "}) {
    if (line.find(call + plain + memory) != std::string::npos) return true;
  }
  return false;
}

// Protocols of the second kind: tables. What one is about stands in its first or second line,
// "| ... ep_cfg[0] | tagged message by ucp_tag_send*() from host memory |", and then come ranges of sizes,
// "| 0..788 | eager short | tcp/lo |".
inline void read_tables(const std::vector<std::string>& all, const std::string& memory, Protocols& found) {
  const char* fact = nullptr;  // whose table it is; the first of each operation counts
  for (const std::string& line : all) {
    const bool begins = line.find("cfg[") != std::string::npos || line.find("cfg#") != std::string::npos;
    if (begins) fact = nullptr;
    const auto heads = [&](const Operation& one) { return is_about(line, one.call, memory); };
    if (const auto* const one = std::ranges::find_if(kOperations, heads); one != std::end(kOperations)) {
      fact = found.contains(one->fact) ? nullptr : one->fact;
      continue;
    }
    const std::vector<std::string> cells = words(line, '|');
    if (begins || fact == nullptr || cells.size() < 4) continue;
    const std::string range = trimmed(cells[1]), over = trimmed(cells[3]);
    if (range.empty() || range[0] < '0' || range[0] > '9') continue;
    add(found, fact,
        trimmed(cells[2]) + " from " + range.substr(0, range.find("..")) + (over.empty() ? "" : " over " + over), ", ");
  }
}

// Both: by the name of the fact the steps, "egr/short from 0, rndv from 8256". said: the lines that UCX prints of an
// endpoint and of its worker. memory: what messages are in, "host" or "cuda".
inline Protocols read_protocols(const std::vector<std::string>& said, const std::string& memory) {
  Protocols found, tables;
  read_lines(said, found);
  read_tables(said, memory, tables);
  for (const auto& [fact, text] : tables) found[fact] = text;  // where there are both these are in force
  return found;
}

}  // namespace netpipe::ucx
