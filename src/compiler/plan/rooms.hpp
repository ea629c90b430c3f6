// The memory of results until something is written there: rooms, where blocks lie that would make the arena larger.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/packing.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// The memory of a result. It is free until this step begins.
struct Room {
  std::int64_t bytes = 0;
  int before = 0;
};

/// What a block asks of a room: for what it holds, while it lives and may be in the way. Without bytes it has to stay.
struct Request {
  std::int64_t bytes = 0;
  LiveRange range{};
};

/// A place in a room. -1: none, the block stays in the arena.
struct RoomPlace {
  int room = -1;
  std::int64_t offset = 0;
};

struct Housing {
  std::vector<RoomPlace> places;  ///< of each block
  std::int64_t least_alive = 0;   ///< bytes of an arena that no choice of places does without
};

/// Takes blocks out of the arena where most is alive, until none of those that live there has a place in a room.
TELAMON_API Housing fill_rooms(const std::vector<Block>& blocks,
                               const std::vector<Request>& requests,
                               const std::vector<Room>& rooms);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
