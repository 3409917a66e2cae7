#include <algorithm>

#include "distbelief/mesh/host_exchange.h"

// The part of HostExchange that gathers parameters when each host keeps a chunk of them (ZeRO-3).
namespace distbelief::mesh {
namespace {

using comm::Link;
using compute::Span;
using Requests = std::vector<Link::Request>;

enum GatherTag : int { kGatherTag = 111, kBlockTag };

std::byte* bytes_of(float* data) { return reinterpret_cast<std::byte*>(data); }

}  // namespace

std::vector<ExchangeStop> gather_stops(const compute::Layout& layout,
                                       const std::vector<std::vector<Span>>& blocks,
                                       const std::vector<Pass>& passes, int norm_rounds) {
  using Kind = ExchangeStop::Kind;
  const int all = int(blocks.size());
  std::vector<int> first_block(layout.buckets().size(),
                               all);  // per bucket: the first block with a part in it
  for (int block = all - 1; block >= 0; --block)
    for (const Span& span : blocks[std::size_t(block)])
      for (std::size_t b = 0; b < layout.buckets().size(); ++b)
        if (layout.buckets()[b].span.begin <= span.begin && span.begin < layout.buckets()[b].span.end)
          first_block[b] = block;
  std::vector<ExchangeStop> stops;
  const int places = int(course_of(passes, all).size());
  // Places of the last pass's backward.
  const int backward = passes.back() == Pass::kThereAndBack ? all - 1 : all;
  int gathered = 0;
  const auto gather_up_to = [&](int place) {
    while (gathered < place) stops.push_back({Kind::kGather, gathered++});
  };
  gather_up_to(places - backward);
  std::size_t bucket = 0;
  for (int block = all - 1; block >= 0; --block) {
    gather_up_to(block > 0 ? places - block + 1 : places);  // the preceding block is on its way
    for (; bucket < first_block.size() && first_block[bucket] >= block; ++bucket)
      stops.push_back({Kind::kSum, int(bucket)});
  }
  for (int i = 0; i < norm_rounds; ++i) stops.push_back({Kind::kNorms, i});
  stops.push_back({Kind::kBuffers, 0});
  return stops;
}

void HostExchange::gather_blocks(std::vector<std::vector<Span>> blocks, const std::vector<Pass>& passes) {
  blocks_ = std::move(blocks);
  course_ = course_of(passes, int(blocks_.size()));
  stops_ = gather_stops(*options_.layout, blocks_, passes, options_.norm_rounds);
}

void HostExchange::start_passes(std::int64_t passes) {
  start(-1, [this, passes] {
    const std::vector<int> course =
        course_of(std::vector<Pass>(std::size_t(passes), Pass::kForward), int(blocks_.size()));
    for (std::size_t place = 0; place < course.size(); ++place) gather_block(std::int64_t(place), course);
    end_course(course);
  });
}

int HostExchange::bucket_at(std::size_t element) const {
  const auto& buckets = options_.layout->buckets();
  return int(std::find_if(buckets.begin(), buckets.end(),
                          [&](const compute::Bucket& each) { return element < each.span.end; }) -
             buckets.begin());
}

// Sends each host's part of a span to all other hosts.
void HostExchange::spread(Span span, Requests& requests) {
  Link& link = options_.leaders->link();
  for (int h = 0; h < hosts_; ++h) {
    const Span whole = chunk(bucket_at(span.begin), h);
    const Span piece{std::max(whole.begin, span.begin), std::min(whole.end, span.end)};
    if (piece.begin >= piece.end) continue;
    float* values = options_.state->parameters() + piece.begin;
    const std::size_t size = piece.size() * sizeof(float);
    if (h != host_) requests.push_back(link.start_receive(bytes_of(values), size, h, kBlockTag));
    for (int to = 0; h == host_ && to < hosts_; ++to)
      if (to != host_) requests.push_back(link.start_send(bytes_of(values), size, to, kBlockTag));
  }
}

void HostExchange::gather_span(Span span) {
  Requests requests;
  spread(span, requests);
  options_.leaders->link().wait(requests, "gather parameters");
}

void HostExchange::forget_span(Span span) {
  const Span own = chunk(bucket_at(span.begin), host_);
  SharedState::forget(options_.state->parameters(),
                      {span.begin, std::max(span.begin, std::min(span.end, own.begin))});
  SharedState::forget(options_.state->parameters(),
                      {std::min(span.end, std::max(span.begin, own.end)), span.end});
}

// While one block is in use the next is on its way; the block before these two is freed.
void HostExchange::gather_block(std::int64_t place, const std::vector<int>& course) {
  if (place >= 2)
    wait_for_carriers(&CarrierSignals::used, places_before_ + std::uint32_t(place - 1), "use parameters");
  Requests requests;
  for (const Span& span : blocks_[std::size_t(course[std::size_t(place)])])
    if (holders_[span.begin]++ == 0) spread(span, requests);
  options_.leaders->link().wait(requests, "gather parameters");
  options_.state->host().gathered.raise(places_before_ + std::uint32_t(place + 1));
  if (place >= 2) let_go(course[std::size_t(place - 2)]);
}

// Frees the parts of other hosts in a block that this host no longer uses.
void HostExchange::let_go(int block) {
  for (const Span& span : blocks_[std::size_t(block)])
    if (--holders_[span.begin] == 0) forget_span(span);
}

void HostExchange::end_course(const std::vector<int>& course) {
  const std::size_t places = course.size();
  wait_for_carriers(&CarrierSignals::used, places_before_ + std::uint32_t(places), "use parameters");
  for (std::size_t place = places > 2 ? places - 2 : 0; place < places; ++place) let_go(course[place]);
  places_before_ += std::uint32_t(places);
}

void HostExchange::gather(float* values) {
  Link& link = options_.leaders->link();
  for (int b = 0; b < int(options_.layout->buckets().size()); ++b) {
    Requests requests;
    for (int h = 1; h < hosts_; ++h) {
      const Span span = chunk(b, h);
      if (span.size() == 0) continue;
      if (host_ == 0)
        requests.push_back(link.start_receive(bytes_of(values + span.begin), span.size() * 4, h, kGatherTag));
      if (host_ == h)
        requests.push_back(link.start_send(bytes_of(values + span.begin), span.size() * 4, 0, kGatherTag));
    }
    link.wait(requests, "gather optimizer state");
  }
}

}  // namespace distbelief::mesh
