#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "distbelief/checkpoint/safetensors.h"

// Tensors that no single process holds. Each process writes its piece as a tensor in its part of the
// checkpoint, named by the logical tensor and the range: `fc1.weight[0:64]` is a range of the dimension that
// is cut, `fc1.weight[0:64]@1024-2048` are consecutive elements of that slice. The file's metadata give the
// tensor, shape and position of each piece. Readers get whole tensors and do not see the cuts. Pure.
namespace distbelief::checkpoint {

// A process's piece of a tensor as it is saved; an ordinary tensor when the piece is the whole.
TensorView piece_view(const PieceOf& piece, const TensorView& elements);

// The metadata of a file of these tensors; unchanged when none is a piece.
Metadata with_pieces(Metadata metadata, std::span<const TensorView> tensors);

// Whole tensors from the pieces in several files. Throws Error(kBadInput) with the tensor when pieces are
// described wrongly, overlap or leave gaps.
std::vector<TensorView> join_pieces(const std::filesystem::path& origin,
                                    std::span<const SafetensorsFile> files);

}  // namespace distbelief::checkpoint
