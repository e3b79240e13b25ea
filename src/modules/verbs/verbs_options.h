// SPDX-License-Identifier: Apache-2.0
// The options of verbs.
#pragma once

#include <cstdint>

#include "kit/waiting.h"
#include "netpipe/module.h"

namespace netpipe::verbs {

enum Option {
  kDevice,
  kPort,
  kGid,
  kQp,
  kOp,
  kQps,
  kMtu,
  kInline,
  kEager,
  kRegister,
  kAhead,
  kSignal,
  kList,
  kPatience,
  kWait,
  kSpin,
  kOptions
};

// The words of these options, in the order of the table.
enum QpType { kRc, kUc, kUd };
enum Op { kSend, kWrite, kWriteImm };
enum Register { kOnce, kEach };

inline constexpr int64_t kMostQps = 64, kMostInline = 4096, kMostSignal = 128, kMostList = 32, kMostAhead = 256,
                         kUsualAhead = 64;

inline constexpr np_option kTable[kOptions] = {
    {"device", NP_TEXT, "", 0, 0, nullptr, "",
     "RDMA device, as ibv_devices lists them; empty takes the one that has the rank's address, or else the first with "
     "a "
     "link",
     1},
    {"port", NP_INT, "0", 0, 255, nullptr, "", "port of the device, from 1; 0 takes the first with a link", 0},
    {"gid", NP_INT, "-1", -1, 255, nullptr, "",
     "index of the GID that packets come from; -1 takes the one of the rank's address, or else one of RoCE v2", 0},
    {"qp", NP_CHOICE, "rc", 0, 0, "rc|uc|ud", "",
     "type of queue pair: reliable connection, unreliable connection or unreliable datagram; the last two may lose "
     "messages",
     0},
    {"op", NP_CHOICE, "send", 0, 0, "send|write|write_imm", "",
     "how a message is carried: by send and receive, by an RDMA write whose arrival the receiver sees in its memory, "
     "or "
     "by an RDMA write with immediate data; qp=uc writes to cells of the receiver",
     0, NP_USES_MESSAGES, "with qp=ud: datagrams are carried by send and receive"},
    {"qps", NP_INT, "1", 1, kMostQps, nullptr, "", "queue pairs for each peer, used in turn", 1, 0,
     "with op=write|write_imm: its messages arrive in order, over one queue pair; with qp=ud: one queue pair reaches "
     "all peers"},
    {"mtu", NP_CHOICE, "auto", 0, 0, "auto|256|512|1024|2048|4096", "bytes",
     "most bytes of a message in one packet; auto takes what the port has", 1},
    {"inline", NP_INT, "-1", -1, kMostInline, nullptr, "bytes",
     "messages up to this size travel in their work request (IBV_SEND_INLINE); 0: none, -1: 220 or what the device has",
     1},
    {"eager", NP_SIZE, "1k", 0, 65536, nullptr, "bytes",
     "op=write: messages up to this size travel together with the word that tells of them, and are copied to their "
     "place; larger ones go straight there, and the word behind them",
     1, NP_USES_MESSAGES,
     "with op=send|write_imm: only op=write has a word that tells of a message; with qp=uc: each of its messages "
     "travels "
     "together with that word"},
    {"register", NP_CHOICE, "once", 0, 0, "once|each", "",
     "register the memory of messages before the clock runs, or of each message while it runs", 0, NP_USES_MESSAGES,
     "with op=write|write_imm and qp=rc: the sender must know the place beforehand, so choose op=send"},
    {"ahead", NP_INT, "64", 0, kMostAhead, nullptr, "receives",
     "op=send: receives that are posted ahead, at the places where the next messages land, where a rank has messages "
     "with one other",
     1, NP_USES_MESSAGES,
     "with op=write|write_imm: only op=send posts receives for messages; with qp=uc|ud: these post as many receives as "
     "they have memory for"},
    {"signal", NP_INT, "1", 1, kMostSignal, nullptr, "operations",
     "one operation in this many asks for a completion, which also covers those before it", 1},
    {"list", NP_INT, "16", 1, kMostList, nullptr, "operations",
     "work requests that are posted in one call, where many are started at once", 1, 0,
     "with qp=uc|ud: their patterns start one message at a time"},
    {"patience_us", NP_INT, "100000", 100, 10'000'000, nullptr, "us",
     "qp=uc|ud: how long a receive waits before it asks what was sent, and then for that to come", 0, NP_USES_MESSAGES,
     "with qp=rc: only messages of qp=uc|ud may be lost"},
    {"wait", NP_CHOICE, "poll", 0, 0, NP_WAIT_CHOICES, "",
     "block sleeps on the completion channel, poll reads the completion queue again and again, hybrid polls for "
     "spin_us "
     "and then sleeps",
     NP_TUNABLE_WAITING, 0, "with op=write: only wait=poll sees a word change in memory"},
    kSpinOption,
};

}  // namespace netpipe::verbs
