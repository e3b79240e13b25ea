/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls from C++, through the C binding, on two ranks: from templates, from destructors, and while an exception is on
 * its way. FOLDER is its argument.
 */
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "expect.h"

namespace {

template <typename T>
MPI_Datatype type_of();
template <>
MPI_Datatype type_of<int>() {
  return MPI_INT;
}
template <>
MPI_Datatype type_of<double>() {
  return MPI_DOUBLE;
}

template <typename T>
void exchange(int other, int count) {
  std::vector<T> out(static_cast<std::size_t>(count)), in(out);
  MPI_Sendrecv(out.data(), count, type_of<T>(), other, 1, in.data(), count, type_of<T>(), other, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  const long long bytes = static_cast<long long>(sizeof(T)) * count;
  expect("Sendrecv", bytes, other);
  expect("Sendrecv_recv", bytes, other);
}

/* Receives from its construction on, and waits at the end of its life. */
class Received {
 public:
  explicit Received(int other) : other_(other) {
    MPI_Irecv(&value_, 1, MPI_INT, other, 2, MPI_COMM_WORLD, &request_);
    expect("Irecv", 4, other);
  }
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;
  ~Received() {
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
    expect("Wait", 4, other_);
  }

 private:
  int other_;
  int value_ = 0;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

void fail_after_a_send(int other) {
  const Received received(other);
  const int value = 7;
  MPI_Send(&value, 1, MPI_INT, other, 2, MPI_COMM_WORLD);
  expect("Send", 4, other);
  throw std::runtime_error("on purpose");
}

}  // namespace

int main(int argc, char** argv) {
  int rank = 0, ranks = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 2 || ranks != 2) return 2;
  const int other = 1 - rank;
  exchange<int>(other, 5);
  exchange<double>(other, 5);
  bool caught = false;
  try {
    fail_after_a_send(other);
  } catch (const std::runtime_error&) {
    caught = true;
    MPI_Barrier(MPI_COMM_WORLD);
    expect("Barrier", 0, NONE);
  }
  if (!caught) return 3;
  write_expected(argv[1], rank);
  MPI_Finalize();
  return 0;
}
