// SPDX-License-Identifier: Apache-2.0
// What a library cannot take, as an option's `unsupported` text says it:
//
//     unsupported = clause *( "; " clause )
//     clause      = [ condition ": " ] reason
//     condition   = [ values ] [ [" "] "with " other *( " and " other ) ]    other = option "=" values
//     values      = word *( "|" word )
//     word        = a value, or of a number all from one to another: "1..16383", "3.."
//
//     "it was built without UCX"                                       no value but the default
//     "ucx|ucx_tcp: it was built without UCX"                          only these values
//     "with transport=shm: there is no socket; with rpi=lamd: ..."     only beside these values of another option
//     "with ranks=3.. and qp=rc: it is for two ranks"                  only beside these values of both
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "netpipe/module.h"

namespace netpipe {

// The end of a sentence, "sndbuf=8k with transport=shm: there is no socket", about the first option whose value the
// library cannot take; "" if it can take all of them. texts: the values, in the order of the options.
std::string why_unsupported(std::span<const np_option> options, std::span<const std::string> texts,
                            std::span<const std::string> defaults);

}  // namespace netpipe
