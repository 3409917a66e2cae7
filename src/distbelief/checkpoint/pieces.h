#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "distbelief/checkpoint/safetensors.h"

// Tensors that no process has whole. Each writes what it has of one as a tensor of its part of the
// checkpoint, named by the logical tensor and the range: `fc1.weight[0:64]`, of the dimension that is cut, or
// `fc1.weight[0:64]@1024-2048`, elements of that slice one after another. The file's metadata say of each
// which tensor it is of, in what shape, and where it lies. Readers get whole tensors and do not see how they
// were cut. Pure.
namespace distbelief::checkpoint {

// What a process has of a tensor, as it is saved. Plain when that is all of it.
TensorView piece_view(const PieceOf& piece, const TensorView& elements);

// The metadata of a file of these tensors; nothing is added when none is a piece.
Metadata with_pieces(Metadata metadata, std::span<const TensorView> tensors);

// The tensors of some files, whole. Throws Error(kBadInput) with the tensor when pieces are described
// wrongly, overlap or leave gaps.
std::vector<TensorView> join_pieces(const std::filesystem::path& origin,
                                    std::span<const SafetensorsFile> files);

}  // namespace distbelief::checkpoint
