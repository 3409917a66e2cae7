#include "distbelief/comm/communicator.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/base/vector.h"
#include "distbelief/comm/self_communicator.h"

namespace distbelief::comm {

std::string_view to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kDirect: return "direct";
    case Algorithm::kRing: return "ring";
    case Algorithm::kCentral: return "central";
  }
  return "unknown";
}

Part part_of(std::size_t count, int size, int rank) {
  // Multiples of 16 elements keep parts on cache lines of their own; the last part takes the rest.
  constexpr std::size_t kGrain = 16;
  const std::size_t grains = (count + kGrain - 1) / kGrain;
  const auto at = [&](std::size_t i) { return std::min(count, grains * i / size * kGrain); };
  return {at(rank), rank + 1 == size ? count : at(rank + 1)};
}

void require_rank(const Communicator& communicator, int rank) {
  if (rank >= 0 && rank < communicator.size()) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("there is no rank {}: there are ranks 0 to {}", rank, communicator.size() - 1));
}

void require_reducible(const View& values, ReduceOp op) {
  const bool floating = values.type == ElementType::kFloat32 || values.type == ElementType::kFloat64;
  if (floating || (values.type == ElementType::kInt64 && op == ReduceOp::kSum)) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("cannot take the {} of {} values; use float32 or float64, or int64 sums",
                          op == ReduceOp::kSum ? "sum" : "mean", distbelief::to_string(values.type)));
}

void finish_mean(const View& values, ReduceOp op, int size) {
  if (op != ReduceOp::kMean || size == 1) return;
  if (values.type == ElementType::kFloat32)
    scale(static_cast<float*>(values.data), 1.0F / static_cast<float>(size), values.count);
  else
    scale(static_cast<double*>(values.data), 1.0 / size, values.count);
}

void accumulate(const View& out, const void* in) {
  switch (out.type) {
    case ElementType::kFloat32:
      return add(static_cast<float*>(out.data), static_cast<float*>(out.data), static_cast<const float*>(in),
                 out.count);
    case ElementType::kFloat64:
      return add(static_cast<double*>(out.data), static_cast<double*>(out.data),
                 static_cast<const double*>(in), out.count);
    case ElementType::kInt64:
      return add(static_cast<std::int64_t*>(out.data), static_cast<std::int64_t*>(out.data),
                 static_cast<const std::int64_t*>(in), out.count);
    case ElementType::kUint8: break;
  }
  DISTBELIEF_INVARIANT(!"bytes cannot be added");
}

namespace {

constexpr int kFirstUserTag = 1024;  // lower tags belong to the algorithms

}  // namespace

Link::Request Communicator::start_send(View values, int to, int tag) {
  require_rank(*this, to);
  return messages().start_send(static_cast<const std::byte*>(values.data), values.bytes(), to,
                               kFirstUserTag + tag);
}

Link::Request Communicator::start_receive(View values, int from, int tag) {
  require_rank(*this, from);
  return messages().start_receive(static_cast<std::byte*>(values.data), values.bytes(), from,
                                  kFirstUserTag + tag);
}

void Communicator::send(View values, int to, int tag) {
  Link::Request requests[] = {start_send(values, to, tag)};
  messages().wait(requests, "send");
}

void Communicator::receive(View values, int from, int tag) {
  Link::Request requests[] = {start_receive(values, from, tag)};
  messages().wait(requests, "receive");
}

Link& SelfCommunicator::messages() {
  throw Error(ErrorCode::kBadInput, "a world of one has nobody to send to or to receive from");
}

}  // namespace distbelief::comm
