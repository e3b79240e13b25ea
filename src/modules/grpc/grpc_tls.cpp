// SPDX-License-Identifier: Apache-2.0
// The library that makes certificates is loaded when the option asks for one, so that grpc itself needs none.
#include "grpc_tls.h"

#include <dlfcn.h>

#include <memory>
#include <type_traits>

#include "kit/streams/fd.h"

// opensslconf.h is of one architecture: a cross compiler may see the other headers without it.
#if __has_include(<openssl/x509v3.h>) && __has_include(<openssl/opensslconf.h>)
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#define NP_HAS_CERTIFICATES 1
#else
#define NP_HAS_CERTIFICATES 0
#endif

namespace netpipe::grpc {

using fd_io::fail;

#if NP_HAS_CERTIFICATES

namespace {

// The functions of the library that are used here, under its own names.
// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses)
struct Crypto {
#define NP_CRYPTO_CALLS(each)                                                                                     \
  each(ASN1_INTEGER_set) each(BIO_free) each(BIO_new) each(BIO_read) each(BIO_s_mem) each(EVP_PKEY_Q_keygen)      \
      each(EVP_PKEY_free) each(EVP_sha256) each(PEM_write_bio_PrivateKey) each(PEM_write_bio_X509)                \
          each(X509_EXTENSION_free) each(X509_NAME_add_entry_by_txt) each(X509V3_EXT_conf_nid) each(X509_add_ext) \
              each(X509_free) each(X509_get_serialNumber) each(X509_get_subject_name) each(X509_getm_notAfter)    \
                  each(X509_getm_notBefore) each(X509_gmtime_adj) each(X509_new) each(X509_set_issuer_name)       \
                      each(X509_set_pubkey) each(X509_set_version) each(X509_sign)
#define NP_CRYPTO_POINTER(name) decltype(&::name) name = nullptr;
  NP_CRYPTO_CALLS(NP_CRYPTO_POINTER)
#undef NP_CRYPTO_POINTER
  std::string missing;  // why it cannot be used
};
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)

// OpenSSL 3; loaded once in a process and never unloaded.
const Crypto& crypto() {
  static const Crypto loaded = [] {
    Crypto made;
    void* const library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      made.missing = "libcrypto.so.3 cannot be loaded; install OpenSSL 3 (apt install libssl3)";
      return made;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr && made.missing.empty()) made.missing = std::string("libcrypto.so.3 has no ") + name;
    };
#define NP_CRYPTO_FIND(name) find(made.name, #name);
    NP_CRYPTO_CALLS(NP_CRYPTO_FIND)
#undef NP_CRYPTO_FIND
    return made;
  }();
  return loaded;
}
#undef NP_CRYPTO_CALLS

struct Free {
  void operator()(EVP_PKEY* key) const { crypto().EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { crypto().X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { crypto().X509_EXTENSION_free(extension); }
  void operator()(BIO* text) const { crypto().BIO_free(text); }
};
template <typename Type>
using Owned = std::unique_ptr<Type, Free>;

bool name_it(X509* certificate) {
  const Crypto& c = crypto();
  X509_NAME* const name = c.X509_get_subject_name(certificate);
  const auto* const text = reinterpret_cast<const unsigned char*>(kCertifiedName);
  const std::string alternative = std::string("DNS:") + kCertifiedName;
  const Owned<X509_EXTENSION> also(c.X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, alternative.c_str()));
  return c.X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1 &&
         c.X509_set_issuer_name(certificate, name) == 1 && also && c.X509_add_ext(certificate, also.get(), -1) == 1;
}

// Hosts whose clocks are a day apart still agree that it is valid.
bool date_it(X509* certificate) {
  constexpr long kDay = 24 * 60 * 60;
  const Crypto& c = crypto();
  return c.X509_gmtime_adj(c.X509_getm_notBefore(certificate), -kDay) != nullptr &&
         c.X509_gmtime_adj(c.X509_getm_notAfter(certificate), 30 * kDay) != nullptr;
}

std::string text_in(BIO* bio) {
  std::string text;
  char room[512];
  for (int got = 0; (got = crypto().BIO_read(bio, room, sizeof room)) > 0;) {
    text.append(room, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

np_status make_certificate(const np_context* context, Certificate& made) {
  const Crypto& c = crypto();
  if (!c.missing.empty()) return fail(context, NP_UNAVAILABLE, "grpc: security=tls: %s", c.missing.c_str());
  // NOLINTBEGIN(clang-analyzer-core.CallAndMessage): no name is missing, so no pointer is null
  constexpr long kVersion3 = 2;
  const Owned<EVP_PKEY> key(c.EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  const Owned<X509> certificate(c.X509_new());
  const Owned<BIO> certificate_text(c.BIO_new(c.BIO_s_mem())), key_text(c.BIO_new(c.BIO_s_mem()));
  const bool good = key && certificate && certificate_text && key_text &&
                    c.X509_set_version(certificate.get(), kVersion3) == 1 &&
                    c.ASN1_INTEGER_set(c.X509_get_serialNumber(certificate.get()), 1) == 1 &&
                    date_it(certificate.get()) && c.X509_set_pubkey(certificate.get(), key.get()) == 1 &&
                    name_it(certificate.get()) && c.X509_sign(certificate.get(), key.get(), c.EVP_sha256()) > 0 &&
                    c.PEM_write_bio_X509(certificate_text.get(), certificate.get()) == 1 &&
                    c.PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1;
  if (!good) return fail(context, NP_FAILED, "grpc: security=tls: OpenSSL makes no certificate");
  made = {text_in(certificate_text.get()), text_in(key_text.get())};
  // NOLINTEND(clang-analyzer-core.CallAndMessage)
  return NP_OK;
}

#else

np_status make_certificate(const np_context* context, Certificate&) {
  return fail(context, NP_UNAVAILABLE,
              "grpc: security=tls: netpipe was built without OpenSSL 3 (apt install libssl-dev)");
}

#endif

std::string security_of(const Library& lib, grpc_call* call, const char* property) {
  grpc_auth_context* const context = lib.grpc_call_auth_context(call);
  if (context == nullptr) return {};
  grpc_auth_property_iterator all = lib.grpc_auth_context_find_properties_by_name(context, property);
  const grpc_auth_property* const found = lib.grpc_auth_property_iterator_next(&all);
  std::string value = found != nullptr ? std::string(found->value, found->value_length) : std::string();
  lib.grpc_auth_context_release(context);
  return value;
}

}  // namespace netpipe::grpc
