#pragma once

#include <vector>

#include "distbelief/comm/communicator.h"
#include "distbelief/comm/link.h"

// Collectives as free functions over point-to-point links. n is the number of ranks and V the bytes of the
// values. "steps" counts rounds of messages, one round after another; "sent" is the bytes that the busiest
// rank sends.
//
//   algorithm             steps      sent              adds in
//   ring reduce-scatter   n - 1      V (n-1)/n         ring order   (Patarasuk and Yuan, 2009)
//   ring allgather        n - 1      V (n-1)/n         -
//   direct reduce-scatter 1          V (n-1)/n         tree order
//   direct allgather      1          V (n-1)/n         -
//   central reduce        1          V (to rank 0)     tree order, all at rank 0
//   broadcast             log2 n     V log2 n by root  -            (binomial tree)
//   barrier               log2 n     log2 n bytes      -            (dissemination)
//
// All work in place. `parts` says which rank ends with, or starts from, which part.
namespace distbelief::comm {

using Parts = std::vector<Part>;                // one per rank, adjoining, covering everything
Parts even_parts(std::size_t count, int size);  // one part_of() per rank

void ring_reduce_scatter(Link& link, const View& values, const Parts& parts);
void ring_allgather(Link& link, const View& values, const Parts& parts);
void direct_reduce_scatter(Link& link, const View& values, const Parts& parts);
void direct_allgather(Link& link, const View& values, const Parts& parts);
// Rank 0 ends with the sum of all ranks' values[0, count).
void central_reduce(Link& link, const View& values);
void broadcast(Link& link, const View& values, int root);
void barrier(Link& link);

}  // namespace distbelief::comm
