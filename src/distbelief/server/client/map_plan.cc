#include "distbelief/server/client/map_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace distbelief::server {
namespace {

using Part = ServerMap::Part;

// The servers that stay, and their load in a plan.
class Crew {
 public:
  Crew(const ServerMap& map, const std::set<int>& leaving) {
    for (const ServerMap::Server& server : map.servers)
      if (!leaving.contains(server.id)) members_.push_back({.id = server.id, .host = server.host});
  }
  std::size_t size() const { return members_.size(); }
  bool has(int id) const { return find(id) != nullptr; }
  std::set<int> ids() const {
    std::set<int> all;
    for (const Member& member : members_) all.insert(member.id);
    return all;
  }
  bool are_apart(int one, int other) const {
    const Member* const a = find(one);
    const Member* const b = find(other);
    return a != nullptr && b != nullptr && a->host != b->host;
  }
  int& load(int id) { return find(id)->load; }
  int most_loaded() const { return std::ranges::max_element(members_, {}, &Member::load)->id; }
  int least_loaded() const { return std::ranges::min_element(members_, {}, &Member::load)->id; }
  // The best backup: not the primary itself, on another host if there is one, and with the least load.
  int partner_of(int primary) const {
    const Member* best = nullptr;
    const auto rank = [&](const Member& member) {
      return std::pair(are_apart(member.id, primary) ? 0 : 1, member.load);
    };
    for (const Member& member : members_)
      if (member.id != primary && (best == nullptr || rank(member) < rank(*best))) best = &member;
    return best == nullptr ? kNobody : best->id;
  }

 private:
  struct Member {
    int id = 0;
    std::string host{};
    int load = 0;  // parts
  };
  const Member* find(int id) const {
    const auto found = std::ranges::find(members_, id, &Member::id);
    return found == members_.end() ? nullptr : &*found;
  }
  Member* find(int id) { return const_cast<Member*>(std::as_const(*this).find(id)); }

  std::vector<Member> members_;
};

// Moves backups from the most to the least loaded server, until loads are even or none may be moved.
template <typename May>
void even_out_backups(std::vector<Part>& goal, Crew& crew, const May& may) {
  for (;;) {
    const int most = crew.most_loaded(), least = crew.least_loaded();
    if (crew.load(most) - crew.load(least) <= 1) return;
    const auto chosen =
        std::ranges::find_if(goal, [&](const Part& part) { return part.backup == most && may(part, least); });
    if (chosen == goal.end()) return;
    chosen->backup = least;
    --crew.load(most);
    ++crew.load(least);
  }
}

// Gives each server one of any crew.size() consecutive parts: slices of a job are distributed over the parts
// in turn, and a small job has only the first. The present primary keeps the part if possible, and otherwise
// the present backup gets it.
void plan_primaries(const ServerMap& map, std::vector<Part>& goal, const Crew& crew) {
  for (std::size_t first = 0; first < goal.size(); first += crew.size()) {
    const std::size_t end = std::min(first + crew.size(), goal.size());
    std::set<int> free = crew.ids();
    std::vector<std::size_t> left;
    for (std::size_t i = first; i < end; ++i) left.push_back(i);
    for (int Part::*const copy : {&Part::primary, &Part::backup})
      std::erase_if(left, [&](std::size_t i) {
        if (free.erase(map.parts[i].*copy) == 0) return false;
        goal[i].primary = map.parts[i].*copy;
        return true;
      });
    for (const std::size_t i : left) goal[i].primary = free.extract(free.begin()).value();
  }
}

// A server with a copy keeps it if possible.
void plan_backups(const ServerMap& map, std::vector<Part>& goal, Crew& crew) {
  for (std::size_t i = 0; i < goal.size(); ++i) {
    const Part& now = map.parts[i];
    Part& part = goal[i];
    const bool moves = part.primary != now.primary;
    part.backup = kNobody;
    for (const int copy : moves ? std::vector{now.primary, now.backup} : std::vector{now.backup})
      if (part.backup == kNobody && copy != part.primary && crew.has(copy)) part.backup = copy;
    const int partner = crew.partner_of(part.primary);
    const bool is_safer = crew.are_apart(partner, part.primary) && !crew.are_apart(part.backup, part.primary);
    if (part.backup == kNobody || is_safer) part.backup = partner;
    if (part.backup != kNobody) ++crew.load(part.backup);
  }
  const auto may = [&](const Part& part, int least) {
    return part.primary != least &&
           (crew.are_apart(least, part.primary) || !crew.are_apart(part.backup, part.primary));
  };
  even_out_backups(goal, crew, may);
}

// Gives every part with only one copy another one at once.
bool add_copies(ServerMap& next, const Crew& all) {
  Crew crew = all;
  for (const Part& part : next.parts)
    for (const int id : {part.primary, part.backup})
      if (crew.has(id)) ++crew.load(id);
  bool any = false;
  for (Part& part : next.parts) {
    const int partner = part.backup == kNobody ? crew.partner_of(part.primary) : kNobody;
    if (partner == kNobody) continue;
    part.filling = partner;
    ++crew.load(partner);
    any = true;
  }
  return any;
}

// Moves one part towards its goal.
bool move(Part& part, const Part& goal) {
  if (part.primary == goal.primary) {
    if (goal.backup == kNobody || part.backup == goal.backup) return false;
    part.filling = goal.backup;
  } else if (part.backup == goal.primary) {
    part.is_handed_over = true;
  } else {
    part.filling = goal.primary;
  }
  return true;
}

}  // namespace

std::optional<MapStep> next_step(const ServerMap& map, const std::set<int>& leaving) {
  Crew crew(map, leaving);
  if (crew.size() == 0) return std::nullopt;
  MapStep step{.map = map};
  ++step.map.epoch;
  if (add_copies(step.map, crew)) {
    step.reason = "two copies";
    return step;
  }
  std::vector<Part> goal = map.parts;
  plan_primaries(map, goal, crew);
  plan_backups(map, goal, crew);
  bool any = false;
  for (std::size_t i = 0; i < goal.size(); ++i) any |= move(step.map.parts[i], goal[i]);
  if (any) {
    step.reason = "spread";
    return step;
  }
  for (const ServerMap::Server& server : map.servers)
    if (leaving.contains(server.id)) return MapStep{.map = without_server(map, server.id), .reason = "left"};
  return std::nullopt;
}

}  // namespace distbelief::server
