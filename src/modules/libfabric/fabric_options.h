// SPDX-License-Identifier: Apache-2.0
// The options of libfabric.
#pragma once

#include <cstdint>

#include "kit/waiting.h"
#include "netpipe/module.h"

namespace netpipe::fabric {

enum Option { kProvider, kEp, kApi, kCompletion, kComplete, kInject, kRegister, kPatience, kWait, kSpin, kOptions };

// The words of these options, in the order of the table.
enum Ep { kRdm, kMsg, kDgram };
enum Api { kAuto, kTagged, kUntagged };
enum Completion { kQueue, kCounter };
enum Complete { kDefault, kTransmit, kDelivery };
enum Register { kNeeded, kAlways };

inline constexpr int64_t kMostInject = 1 << 20;

inline constexpr np_option kTable[kOptions] = {
    {"provider", NP_TEXT, "", 0, 0, nullptr, "",
     "provider, by the exact name that libfabric gives it, such as tcp;ofi_rxm or shm; empty takes the first that it "
     "offers for this endpoint type at the rank's address",
     1},
    {"ep", NP_CHOICE, "rdm", 0, 0, "rdm|msg|dgram", "",
     "endpoint type: rdm is reliable and without connections, msg has one connection for each peer, dgram may lose "
     "messages",
     0},
    {"api", NP_CHOICE, "auto", 0, 0, "auto|tagged|untagged", "",
     "fi_tsend and fi_trecv, or fi_send and fi_recv; auto uses tags with ep=rdm and none otherwise", 0,
     NP_USES_MESSAGES, "tagged with ep=dgram: datagrams have no tags, so choose api=untagged"},
    {"completion", NP_CHOICE, "queue", 0, 0, "queue|counter", "",
     "what tells that an operation has completed: an entry in a completion queue, or a counter (two ranks only, and "
     "nothing is injected)",
     0, 0,
     "with ranks=3..: one counter cannot tell from whom a message came, so choose completion=queue; with ep=dgram: a "
     "counter does not say which datagram arrived, so choose completion=queue"},
    {"complete", NP_CHOICE, "default", 0, 0, "default|transmit|delivery", "",
     "when a send is complete: as the provider likes, FI_TRANSMIT_COMPLETE or FI_DELIVERY_COMPLETE; with "
     "delivery no message is injected",
     0, NP_USES_MESSAGES},
    {"inject", NP_INT, "-1", -1, kMostInject, nullptr, "bytes",
     "messages up to this size are sent with fi_inject, which has no completion; 0: none, -1: up to the provider's "
     "limit",
     1, NP_USES_MESSAGES,
     "1.. with complete=delivery: an injected message has no completion, so leave one of them out; 1.. with "
     "completion=counter: an injected message has no completion, so leave one of them out"},
    {"register", NP_CHOICE, "needed", 0, 0, "needed|always", "",
     "register the memory of messages: only with providers that need it (FI_MR_LOCAL), or always", 0, NP_USES_MESSAGES},
    {"patience_us", NP_INT, "100000", 100, 10'000'000, nullptr, "us",
     "ep=dgram: how long a receive waits before it counts what has left its sender as lost", 0, NP_USES_MESSAGES,
     "with ep=rdm|msg: only messages of ep=dgram may be lost"},
    {"wait", NP_CHOICE, "poll", 0, 0, NP_WAIT_CHOICES, "",
     "block sleeps on the descriptor of the completion queue or counter, poll reads it again and again, hybrid polls "
     "for spin_us and then sleeps",
     NP_TUNABLE_WAITING},
    kSpinOption,
};

}  // namespace netpipe::fabric
