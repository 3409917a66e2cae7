#pragma once

#include <string>

// How the workers of a run form a mesh: data x pipeline x tensor. Pure: every worker computes the same from
// the same numbers, nothing is sent. Any thread.
namespace distbelief::mesh {

struct Mesh {
  int data = 1;      // replicas of the network, each with its own lanes
  int pipeline = 1;  // places of a replica, each with some of its blocks
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

// Ranks of a host follow one another, so what varies fastest shares a host first: tensor, which talks inside
// every block, then pipeline, which talks between stages, then data, which talks once a step.
MeshPlace place_of(const Mesh& mesh, int rank);
int rank_at(const Mesh& mesh, const MeshPlace& place);

// What the job asks for.
struct MeshWish {
  int data = 0;  // 0: as many as there are workers for
  int pipeline = 1;
  int tensor = 1;
};

// The mesh of so many workers. Throws Error(kBadInput), with the numbers that would work, when data x
// pipeline x tensor is not the number of workers.
Mesh resolve_mesh(const MeshWish& wish, int workers);

struct MeshChange {
  Mesh mesh;
  std::string reason;
};

// The mesh to go on with when the number of workers (1 or more) has changed while a run goes on. Never
// throws; every worker has a place. Pipeline x tensor stays when it divides the workers. Otherwise pipeline
// shrinks, to the largest number that does; tensor, which has to divide what it was because widths were split
// by it, shrinks only when no pipeline helps. Data takes what is left.
MeshChange replan(const Mesh& wanted, int workers);

}  // namespace distbelief::mesh
