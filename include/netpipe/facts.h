/* SPDX-License-Identifier: Apache-2.0
 *
 * What a module says of an endpoint (np_module.describe): one fact after the other. A part of the contract, which
 * netpipe/module.h includes. Plain C, for modules in either language.
 */
#ifndef NETPIPE_FACTS_H
#define NETPIPE_FACTS_H

#include <stddef.h>
#include <stdint.h>

/* NOLINTBEGIN(modernize-use-using,modernize-use-nullptr): C has neither */
/* One fact about an open endpoint: a setting as it really is, a choice that the library made. */
typedef enum np_fact_kind { NP_FACT_TEXT = 0, NP_FACT_INTEGER = 1, NP_FACT_REAL = 2, NP_FACT_BOOL = 3 } np_fact_kind;
typedef struct np_fact {
  uint32_t size; /* sizeof(np_fact) */
  uint32_t kind; /* an np_fact_kind: which of the values below counts */
  const char* name;
  const char* unit; /* of a number: "bytes", "us", ""; may be NULL */
  const char* text;
  int64_t integer; /* also of NP_FACT_BOOL: 0 or 1 */
  double real;
} np_fact;

/* Takes one fact; everything in it is copied. */
typedef void (*np_emit)(void* to, const np_fact* fact);

static inline void np_emit_text(np_emit emit, void* to, const char* name, const char* text) {
  np_fact fact = {sizeof(np_fact), NP_FACT_TEXT, name, NULL, text, 0, 0};
  emit(to, &fact);
}
static inline void np_emit_integer(np_emit emit, void* to, const char* name, int64_t value, const char* unit) {
  np_fact fact = {sizeof(np_fact), NP_FACT_INTEGER, name, unit, NULL, value, 0};
  emit(to, &fact);
}
static inline void np_emit_real(np_emit emit, void* to, const char* name, double value, const char* unit) {
  np_fact fact = {sizeof(np_fact), NP_FACT_REAL, name, unit, NULL, 0, value};
  emit(to, &fact);
}
static inline void np_emit_bool(np_emit emit, void* to, const char* name, int value) {
  np_fact fact = {sizeof(np_fact), NP_FACT_BOOL, name, NULL, NULL, value != 0, 0};
  emit(to, &fact);
}
/* NOLINTEND(modernize-use-using,modernize-use-nullptr) */

#endif
