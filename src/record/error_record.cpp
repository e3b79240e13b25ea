// SPDX-License-Identifier: Apache-2.0
#include "record/error_record.h"

#include "record/json.h"

namespace netpipe {

std::string to_json(const ErrorRecord& error) {
  Json json;
  json.open('{').field("type", "error").field("launch", error.launch).field("variant", error.variant);
  if (error.pattern != nullptr) {
    json.field("pattern", error.pattern).field("size_bytes", error.size_bytes);
  } else {
    json.field_null("pattern").field_null("size_bytes");
  }
  json.field("rank", error.rank).field("host", error.host);
  json.field("code", static_cast<int>(error.code)).field("message", error.message).close('}');
  return json.take();
}

}  // namespace netpipe
