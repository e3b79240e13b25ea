// SPDX-License-Identifier: Apache-2.0
// memcpy: what one core copies, reads or fills, by the routine of one's choice. The layer on which all communication
// within a host stands (section 5 of the 2003 NetPIPE paper). One process; a message is one put or get between two of
// its buffers, whole or in blocks that lie apart, and never a copy of a buffer onto itself.
#include <gnu/libc-version.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "kit/blocks.h"
#include "netpipe/module.h"
#include "netpipe/waiting.h"
#if defined(__x86_64__)
#include <immintrin.h>
#define NETPIPE_X86 1
#endif

namespace netpipe::memcpy_module {
namespace {

using Byte = unsigned char;
constexpr Byte kFillByte = 0x5A;

// `from` is what is read and `to` what is written; an operation that does only one of them ignores the other.
using Routine = void (*)(void* to, const void* from, std::size_t bytes);

// ---------------------------------------------------------------------------------------------- scalar loops
// The empty asm in each turn of a loop costs nothing, and no compiler may merge, vectorise or replace by a call what
// stands around it.

inline void one_at_a_time() { asm volatile("" ::: "memory"); }

void copy_glibc(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
void fill_glibc(void* to, const void*, std::size_t bytes) { std::memset(to, kFillByte, bytes); }

void copy_byte(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<Byte*>(to);
  const auto* in = static_cast<const Byte*>(from);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = in[i];
    one_at_a_time();
  }
}
void read_byte(void*, const void* from, std::size_t bytes) {
  const auto* in = static_cast<const Byte*>(from);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    sum += in[i];
    asm volatile("" : "+r"(sum));
  }
}
void fill_byte(void* to, const void*, std::size_t bytes) {
  auto* out = static_cast<Byte*>(to);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = kFillByte;
    one_at_a_time();
  }
}

constexpr std::size_t kWord = 4;
constexpr std::uint32_t kFillWord = 0x01010101U * kFillByte;

[[gnu::noinline]] void copy_words(Byte* out, const Byte* in, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kWord) {
    std::uint32_t word = 0;
    std::memcpy(&word, in + i, kWord);
    std::memcpy(out + i, &word, kWord);
    one_at_a_time();
  }
}
[[gnu::noinline]] void read_words(const Byte* in, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes; i += kWord) {
    std::uint32_t word = 0;
    std::memcpy(&word, in + i, kWord);
    sum += word;
    asm volatile("" : "+r"(sum));
  }
}
[[gnu::noinline]] void fill_words(Byte* out, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kWord) {
    std::memcpy(out + i, &kFillWord, kWord);
    one_at_a_time();
  }
}

// What the paper says of the glibc for the 686: a size that is not divisible by 4 goes byte by byte, all of it. These
// are the spikes of its figure 4.
void copy_word4(void* to, const void* from, std::size_t bytes) {
  if (bytes % kWord != 0) return copy_byte(to, from, bytes);
  copy_words(static_cast<Byte*>(to), static_cast<const Byte*>(from), bytes);
}
void read_word4(void* to, const void* from, std::size_t bytes) {
  if (bytes % kWord != 0) return read_byte(to, from, bytes);
  read_words(static_cast<const Byte*>(from), bytes);
}
void fill_word4(void* to, const void* from, std::size_t bytes) {
  if (bytes % kWord != 0) return fill_byte(to, from, bytes);
  fill_words(static_cast<Byte*>(to), bytes);
}

// What it says of the Intel compiler and of the glibc for the 386: words, and only the rest in bytes.
void copy_word4_tail(void* to, const void* from, std::size_t bytes) {
  const std::size_t body = bytes - bytes % kWord;
  copy_words(static_cast<Byte*>(to), static_cast<const Byte*>(from), body);
  copy_byte(static_cast<Byte*>(to) + body, static_cast<const Byte*>(from) + body, bytes - body);
}
void read_word4_tail(void*, const void* from, std::size_t bytes) {
  const std::size_t body = bytes - bytes % kWord;
  read_words(static_cast<const Byte*>(from), body);
  read_byte(nullptr, static_cast<const Byte*>(from) + body, bytes - body);
}
void fill_word4_tail(void* to, const void*, std::size_t bytes) {
  const std::size_t body = bytes - bytes % kWord;
  fill_words(static_cast<Byte*>(to), body);
  fill_byte(static_cast<Byte*>(to) + body, nullptr, bytes - body);
}

#ifdef NETPIPE_X86
// ---------------------------------------------------------------------------------------------- string instructions

void copy_movsb(void* to, const void* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
}
void fill_movsb(void* to, const void*, std::size_t bytes) {
  asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(kFillByte) : "memory");
}

// ---------------------------------------------------------------------------------------------- vectors
// Unaligned moves of full vectors, four a turn. What is left is less than a vector: with AVX2 it is moved by a last
// vector that overlaps (or by bytes when there was none), with AVX-512 by a masked one.

#define NETPIPE_AVX2 gnu::target("avx2")

[[NETPIPE_AVX2]] inline __m256i load_avx2(const Byte* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
[[NETPIPE_AVX2]] inline void store_avx2(Byte* at, __m256i value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), value);
}

[[NETPIPE_AVX2]] void copy_avx2(void* to, const void* from, std::size_t bytes) {
  if (bytes < 32) return copy_word4_tail(to, from, bytes);
  auto* out = static_cast<Byte*>(to);
  const auto* in = static_cast<const Byte*>(from);
  std::size_t i = 0;
  for (; i + 128 <= bytes; i += 128) {
    const __m256i a = load_avx2(in + i), b = load_avx2(in + i + 32);
    const __m256i c = load_avx2(in + i + 64), d = load_avx2(in + i + 96);
    store_avx2(out + i, a);
    store_avx2(out + i + 32, b);
    store_avx2(out + i + 64, c);
    store_avx2(out + i + 96, d);
  }
  for (; i + 32 <= bytes; i += 32) store_avx2(out + i, load_avx2(in + i));
  if (i < bytes) store_avx2(out + bytes - 32, load_avx2(in + bytes - 32));
}
[[NETPIPE_AVX2]] void read_avx2(void*, const void* from, std::size_t bytes) {
  if (bytes < 32) return read_word4_tail(nullptr, from, bytes);
  const auto* in = static_cast<const Byte*>(from);
  __m256i seen[4] = {};
  std::size_t i = 0;
  for (; i + 128 <= bytes; i += 128) {
    for (std::size_t k = 0; k < 4; ++k) seen[k] = _mm256_or_si256(seen[k], load_avx2(in + i + 32 * k));
  }
  for (; i + 32 <= bytes; i += 32) seen[0] = _mm256_or_si256(seen[0], load_avx2(in + i));
  if (i < bytes) seen[1] = _mm256_or_si256(seen[1], load_avx2(in + bytes - 32));
  asm volatile("" ::"x"(seen[0]), "x"(seen[1]), "x"(seen[2]), "x"(seen[3]));
}
[[NETPIPE_AVX2]] void fill_avx2(void* to, const void*, std::size_t bytes) {
  if (bytes < 32) return fill_word4_tail(to, nullptr, bytes);
  auto* out = static_cast<Byte*>(to);
  const __m256i value = _mm256_set1_epi8(static_cast<char>(kFillByte));
  std::size_t i = 0;
  for (; i + 128 <= bytes; i += 128) {
    for (std::size_t k = 0; k < 4; ++k) store_avx2(out + i + 32 * k, value);
  }
  for (; i + 32 <= bytes; i += 32) store_avx2(out + i, value);
  if (i < bytes) store_avx2(out + bytes - 32, value);
}

#define NETPIPE_AVX512 gnu::target("avx512f,avx512bw")

[[NETPIPE_AVX512]] inline __mmask64 first(std::size_t bytes) { return ~0ULL >> (64 - bytes); }  // 1 to 64 of them

[[NETPIPE_AVX512]] void copy_avx512(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<Byte*>(to);
  const auto* in = static_cast<const Byte*>(from);
  std::size_t i = 0;
  for (; i + 256 <= bytes; i += 256) {
    const __m512i a = _mm512_loadu_si512(in + i), b = _mm512_loadu_si512(in + i + 64);
    const __m512i c = _mm512_loadu_si512(in + i + 128), d = _mm512_loadu_si512(in + i + 192);
    _mm512_storeu_si512(out + i, a);
    _mm512_storeu_si512(out + i + 64, b);
    _mm512_storeu_si512(out + i + 128, c);
    _mm512_storeu_si512(out + i + 192, d);
  }
  for (; i + 64 <= bytes; i += 64) _mm512_storeu_si512(out + i, _mm512_loadu_si512(in + i));
  if (i < bytes) {
    const __mmask64 rest = first(bytes - i);
    _mm512_mask_storeu_epi8(out + i, rest, _mm512_maskz_loadu_epi8(rest, in + i));
  }
}
[[NETPIPE_AVX512]] void read_avx512(void*, const void* from, std::size_t bytes) {
  const auto* in = static_cast<const Byte*>(from);
  __m512i seen[4] = {};
  std::size_t i = 0;
  for (; i + 256 <= bytes; i += 256) {
    for (std::size_t k = 0; k < 4; ++k) seen[k] = _mm512_or_si512(seen[k], _mm512_loadu_si512(in + i + 64 * k));
  }
  for (; i + 64 <= bytes; i += 64) seen[0] = _mm512_or_si512(seen[0], _mm512_loadu_si512(in + i));
  if (i < bytes) seen[1] = _mm512_or_si512(seen[1], _mm512_maskz_loadu_epi8(first(bytes - i), in + i));
  asm volatile("" ::"v"(seen[0]), "v"(seen[1]), "v"(seen[2]), "v"(seen[3]));
}
[[NETPIPE_AVX512]] void fill_avx512(void* to, const void*, std::size_t bytes) {
  auto* out = static_cast<Byte*>(to);
  const __m512i value = _mm512_set1_epi8(static_cast<char>(kFillByte));
  std::size_t i = 0;
  for (; i + 256 <= bytes; i += 256) {
    for (std::size_t k = 0; k < 4; ++k) _mm512_storeu_si512(out + i + 64 * k, value);
  }
  for (; i + 64 <= bytes; i += 64) _mm512_storeu_si512(out + i, value);
  if (i < bytes) _mm512_mask_storeu_epi8(out + i, first(bytes - i), value);
}

// ---------------------------------------------------------------------------------------------- past the cache
// Streaming stores want aligned targets; what lies before and after whole lines is stored as usual. The sfence makes
// them visible in order, as a message must be.

template <typename Body>  // body(out, in, whole lines)
inline void stream(void* to, const void* from, std::size_t bytes, Routine edge, Body body) {
  auto* out = static_cast<Byte*>(to);
  const auto* in = static_cast<const Byte*>(from);
  const std::size_t head = std::min<std::size_t>(bytes, -reinterpret_cast<std::uintptr_t>(out) % 64);
  const std::size_t lines = (bytes - head) / 64;
  edge(out, in, head);
  body(out + head, in + head, lines);
  const std::size_t done = head + 64 * lines;
  edge(out + done, in + done, bytes - done);
  _mm_sfence();
}

void copy_stream_sse2(void* to, const void* from, std::size_t bytes) {
  stream(to, from, bytes, copy_word4_tail, [](Byte* out, const Byte* in, std::size_t lines) {
    for (std::size_t i = 0; i < 4 * lines; ++i) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out) + i, _mm_loadu_si128(reinterpret_cast<const __m128i*>(in) + i));
    }
  });
}
void fill_stream_sse2(void* to, const void*, std::size_t bytes) {
  const __m128i value = _mm_set1_epi8(static_cast<char>(kFillByte));
  stream(to, to, bytes, fill_word4_tail, [value](Byte* out, const Byte*, std::size_t lines) {
    for (std::size_t i = 0; i < 4 * lines; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(out) + i, value);
  });
}
[[NETPIPE_AVX512]] void stream_lines_avx512(Byte* out, const Byte* in, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out) + i, _mm512_loadu_si512(in + 64 * i));
  }
}
[[NETPIPE_AVX512]] void stream_fill_avx512(Byte* out, const Byte*, std::size_t lines) {
  const __m512i value = _mm512_set1_epi8(static_cast<char>(kFillByte));
  for (std::size_t i = 0; i < lines; ++i) _mm512_stream_si512(reinterpret_cast<__m512i*>(out) + i, value);
}
void copy_stream_avx512(void* to, const void* from, std::size_t bytes) {
  stream(to, from, bytes, copy_word4_tail, stream_lines_avx512);
}
void fill_stream_avx512(void* to, const void*, std::size_t bytes) {
  stream(to, to, bytes, fill_word4_tail, stream_fill_avx512);
}

bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
bool has_avx512() { return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0; }
#endif

bool always() { return true; }

// ---------------------------------------------------------------------------------------------- the table of them

enum Operation { kCopy, kRead, kFill };  // in the order of the option's choices

struct Choice {
  const char* routine;       // the option's word
  const char* instructions;  // what it is made of
  const char* needs;         // what a processor lacks that cannot run it
  bool (*runs_here)();
  Routine of[3];  // by Operation; nullptr: there is no such thing
};

// The first that runs here of those with the wanted word is taken.
constexpr Choice kChoices[] = {
    {"glibc", "the C library's own choice for this processor", "", always, {copy_glibc, nullptr, fill_glibc}},
    {"byte", "a loop over single bytes", "", always, {copy_byte, read_byte, fill_byte}},
    {"word4",
     "a loop over 4-byte words, or over bytes when the size is not divisible by 4",
     "",
     always,
     {copy_word4, read_word4, fill_word4}},
    {"word4_tail",
     "a loop over 4-byte words, the last 1 to 3 bytes one by one",
     "",
     always,
     {copy_word4_tail, read_word4_tail, fill_word4_tail}},
#ifdef NETPIPE_X86
    {"movsb", "rep movsb, rep stosb", "", always, {copy_movsb, nullptr, fill_movsb}},
    {"avx2", "AVX2, 32 bytes at a time", "AVX2", has_avx2, {copy_avx2, read_avx2, fill_avx2}},
    {"avx512",
     "AVX-512 (F, BW), 64 bytes at a time",
     "AVX-512 (F and BW)",
     has_avx512,
     {copy_avx512, read_avx512, fill_avx512}},
    {"nontemporal",
     "AVX-512 streaming stores, 64 bytes at a time",
     "",
     has_avx512,
     {copy_stream_avx512, nullptr, fill_stream_avx512}},
    {"nontemporal",
     "SSE2 streaming stores, 16 bytes at a time",
     "",
     always,
     {copy_stream_sse2, nullptr, fill_stream_sse2}},
#endif
};

enum Option { kRoutine, kOp, kOptions };
constexpr np_option kOptionTable[kOptions] = {
    {"routine", NP_CHOICE, "glibc", 0, 0, "glibc|byte|word4|word4_tail|movsb|avx2|avx512|nontemporal", "",
     "what copies: glibc; a byte loop; word4, a loop over 4-byte words that takes sizes not divisible by 4 byte by "
     "byte (glibc for the 686: the spikes of the 2003 paper); word4_tail, the same with only the last 1 to 3 bytes "
     "one by one; rep movsb; AVX2 or AVX-512 moves; streaming stores past the cache",
     1},
    {"op", NP_CHOICE, "copy", 0, 0, "copy|read|fill", "",
     "copy, or only read (loads of the source), or only fill (stores into the target): these two move no message", 0, 0,
     "read with routine=glibc|movsb|nontemporal: nothing of that kind only reads memory, so choose routine=byte, "
     "word4, word4_tail, avx2 or avx512"},
};

const char* version() {
  static const std::string text = std::string("glibc ") + gnu_get_libc_version();
  return text.c_str();
}

}  // namespace
}  // namespace netpipe::memcpy_module

struct np_endpoint {
  netpipe::memcpy_module::Routine run;
  const np_context* context;
  const netpipe::memcpy_module::Choice* choice;
};

namespace netpipe::memcpy_module {
namespace {

np_status open(const np_context* context, np_endpoint** endpoint) {
  const char* routine = context->options[kRoutine].text;
  const char* op = context->options[kOp].text;
  const auto operation = static_cast<Operation>(context->options[kOp].number);
  const Choice* lacking = nullptr;
  for (const Choice& choice : kChoices) {
    if (std::strcmp(choice.routine, routine) != 0) continue;
    if (!choice.runs_here()) {
      lacking = &choice;
      continue;
    }
    if (choice.of[operation] == nullptr) {  // the table refuses it before
      std::snprintf(context->message, context->message_bytes, "op=%s does not exist with routine=%s", op, routine);
      return NP_USAGE;
    }
    auto* const made = new (std::nothrow) np_endpoint{choice.of[operation], context, &choice};
    if (made == nullptr) {
      std::snprintf(context->message, context->message_bytes, "no memory for an endpoint");
      return NP_NO_MEMORY;
    }
    *endpoint = made;
    return NP_OK;
  }
  std::snprintf(context->message, context->message_bytes, "routine=%s needs a processor with %s", routine,
                lacking != nullptr ? lacking->needs : "the x86-64 instruction set");
  return NP_UNAVAILABLE;
}

void close(np_endpoint* e) { delete e; }

np_status limits(np_endpoint* e, np_limits* limits) {
  limits->delivers = e->context->options[kOp].number == kCopy ? 1 : 0;
  return NP_OK;
}

np_status expose(np_endpoint*, void* memory, size_t bytes, np_region* region) {
  *region = {};
  region->base = memory;
  region->bytes = bytes;
  return NP_OK;
}
np_status attach(np_endpoint*, int, np_region*) { return NP_OK; }  // the process is its own peer
void withdraw(np_endpoint*, np_region*) {}

[[gnu::cold, gnu::noinline]] np_status refuse(const np_endpoint* e, bool outside) {
  std::snprintf(e->context->message, e->context->message_bytes,
                outside ? "the message is not within the region"
                        : "source and target overlap: a buffer is not copied onto itself");
  return NP_USAGE;
}

np_status move(np_endpoint* e, void* to, const void* from, const np_region* region, size_t offset, size_t bytes) {
  if (offset > region->bytes || bytes > region->bytes - offset) [[unlikely]]
    return refuse(e, true);
  const auto target = reinterpret_cast<std::uintptr_t>(to), source = reinterpret_cast<std::uintptr_t>(from);
  if (target - source < bytes || source - target < bytes) [[unlikely]]
    return refuse(e, false);
  e->run(to, from, bytes);
  return NP_OK;
}

np_status put(np_endpoint* e, int, const void* source, const np_region* target, size_t offset, size_t bytes) {
  return move(e, static_cast<Byte*>(target->base) + offset, source, target, offset, bytes);
}
np_status get(np_endpoint* e, int, void* target, const np_region* source, size_t offset, size_t bytes) {
  return move(e, target, static_cast<const Byte*>(source->base) + offset, source, offset, bytes);
}

// One block after the other, each by the chosen routine. Where the choice is left to the C library, blocks of a word or
// two are loads and stores of that size, which is what a compiler makes of a loop over them.
np_status move_blocks(np_endpoint* e, void* to, uint64_t to_stride, const void* from, uint64_t from_stride,
                      const np_region* region, size_t offset, const np_strided& shape) {
  const uint64_t exposed_bytes = kit::extent(shape, shape.far_stride);
  if (offset > region->bytes || exposed_bytes > region->bytes - offset) [[unlikely]]
    return refuse(e, true);
  const auto target = reinterpret_cast<std::uintptr_t>(to), source = reinterpret_cast<std::uintptr_t>(from);
  if (target - source < kit::extent(shape, from_stride) || source - target < kit::extent(shape, to_stride)) [[unlikely]]
    return refuse(e, false);
  if (e->run == copy_glibc) {
    kit::copy_blocks(to, to_stride, from, from_stride, shape);
    return NP_OK;
  }
  for (uint64_t i = 0; i < shape.blocks; ++i) {
    e->run(static_cast<Byte*>(to) + i * to_stride, static_cast<const Byte*>(from) + i * from_stride, shape.block_bytes);
  }
  return NP_OK;
}

np_status put_strided(np_endpoint* e, int, const void* source, const np_region* target, size_t offset,
                      const np_strided* shape) {
  return move_blocks(e, static_cast<Byte*>(target->base) + offset, shape->far_stride, source, shape->near_stride,
                     target, offset, *shape);
}
np_status get_strided(np_endpoint* e, int, void* target, const np_region* source, size_t offset,
                      const np_strided* shape) {
  return move_blocks(e, target, shape->near_stride, static_cast<const Byte*>(source->base) + offset, shape->far_stride,
                     source, offset, *shape);
}

np_status fence(np_endpoint*) { return NP_OK; }
np_status flush(np_endpoint*, int) { return NP_OK; }

void describe(np_endpoint* e, np_emit emit, void* to) {
  np_emit_text(emit, to, "routine", e->choice->routine);
  np_emit_text(emit, to, "instructions", e->choice->instructions);
  np_emit_text(emit, to, "op", e->context->options[kOp].text);
  np_emit_text(emit, to, "wait", np_waiting_word(NP_WAIT_NONE));
}

}  // namespace
}  // namespace netpipe::memcpy_module

extern "C" [[gnu::visibility("default")]] const np_module* netpipe_module() {
  using namespace netpipe::memcpy_module;  // NOLINT(google-build-using-namespace): its table
  static constexpr np_one_sided one_sided = {.size = sizeof(np_one_sided),
                                             .expose = expose,
                                             .attach = attach,
                                             .withdraw = withdraw,
                                             .put = put,
                                             .get = get,
                                             .fence = fence,
                                             .flush = flush,
                                             .put_strided = put_strided,
                                             .get_strided = get_strided};
  static const np_module module = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "memcpy",
      .summary = "one core copying, reading or filling memory with a chosen routine",
      .version = version(),
      .options = kOptionTable,
      .noptions = kOptions,
      .option_bytes = sizeof(np_option),
      .min_ranks = 1,
      .max_ranks = 1,
      .one_sided = &one_sided,
      .open = open,
      .close = close,
      .limits = limits,
      .describe = describe,
  };
  return &module;
}
