#pragma once

#include <span>
#include <string>

// How the workers of a run form a mesh: data x pipeline x tensor. Pure: every worker computes the same result
// from the same numbers, without communication. Any thread.
namespace distbelief::mesh {

struct Mesh {
  int data = 1;      // copies of the network, each with its own lanes
  int pipeline = 1;  // places per copy, each with some of its blocks
  int tensor = 1;    // workers that compute one block together
  int workers() const { return data * pipeline * tensor; }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

struct MeshPlace {
  int data = 0;
  int pipeline = 0;
  int tensor = 0;
  friend bool operator==(const MeshPlace&, const MeshPlace&) = default;
};

// Consecutive ranks share a host, so the order keeps frequent traffic inside a host: tensor (inside every
// block) varies fastest, then pipeline (between stages), then data (once a step).
MeshPlace place_of(const Mesh& mesh, int rank);
int rank_at(const Mesh& mesh, const MeshPlace& place);

// Whether the workers of every host hold the whole network between them.
bool hosts_hold_all(const Mesh& mesh, std::span<const int> workers_per_host);
// Whether the workers of every place share hosts in the same numbers, as they do where each host has whole
// replicas. parallel.zero above 1 wants it: lanes are then dealt in turns inside each host, and all workers
// of a replica must get the same.
bool places_lie_alike(const Mesh& mesh, std::span<const int> workers_per_host);

// The mesh that the job asks for.
struct MeshWish {
  int data = 0;  // 0: as many as the workers allow
  int pipeline = 1;
  int tensor = 1;
};

// The mesh for a number of workers. Throws Error(kBadInput), with numbers that work, when data x pipeline x
// tensor is not the number of workers.
Mesh resolve_mesh(const MeshWish& wish, int workers);

struct MeshChange {
  Mesh mesh;
  std::string reason;
};

// The mesh after the number of workers (1 or more) has changed during a run. Never throws; every worker has a
// place. Keeps pipeline x tensor if it divides the workers. Otherwise shrinks pipeline to the largest number
// that works. Shrinks tensor only when no pipeline works, and only to a divisor of its old value, because
// widths were split by it. Data takes the rest.
MeshChange replan(const Mesh& wanted, int workers);

}  // namespace distbelief::mesh
