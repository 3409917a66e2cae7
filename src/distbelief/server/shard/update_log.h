#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace distbelief::server {

// One update of one slice. With the first values and the gradients, which depend on the parameters that the
// replica had (its own log says which), the records of a slice in the order of versions give its values.
struct UpdateRecord {
  std::int64_t slice = 0;
  std::int64_t version = 0;  // that it made
  std::int64_t ticket = 0;
  std::int32_t replica = 0;
  std::int64_t base = 0;           // version that the gradient was computed from
  double lr = 0;                   // that was used
  std::vector<std::int32_t> of{};  // replicas whose gradients it is the sum of (sync)
  bool operator==(const UpdateRecord&) const = default;
};

// What a push has made of a table's rows in some of its parts. Parts without rows count too: a ticket is in
// all of them.
struct RowsRecord {
  struct Part {
    int part = 0;
    std::int64_t rows = 0;
    std::int64_t ids = 0;  // a checksum of their ids, in any order
    void add(std::uint64_t id);
    bool operator==(const Part&) const = default;
  };
  std::int32_t table = 0;
  std::int64_t ticket = 0;
  std::int32_t replica = 0;
  std::uint64_t parts = 0;   // a bit for each
  std::vector<Part> rows{};  // of those that have any
  bool operator==(const RowsRecord&) const = default;
};

// A file of lines, one per update or deal, in the order in which they took effect. Each line is in the file,
// though not on the disk, when append() returns: a killed process loses none; one that cannot be written
// leaves nothing, and throws Error(kUnavailable). What is noted, and is no update, is only missed then, which
// the server's own log says. Thread safe.
class UpdateLog {
 public:
  // Goes on at the end of a file that is there. Throws Error(kUnavailable).
  explicit UpdateLog(const std::filesystem::path& path);
  ~UpdateLog();
  UpdateLog(const UpdateLog&) = delete;
  UpdateLog& operator=(const UpdateLog&) = delete;

  // Whose updates follow; and that the job is over on this server: what happens to the server later matters
  // not.
  void append_job(const std::string& mark);
  void note_over();
  void append(const UpdateRecord& record);
  // A slice came from another server, at this version.
  void append_installed(std::int64_t slice, std::int64_t version);
  // A slice has done a command (sandblaster).
  void append_command(std::int64_t slice, std::int64_t version, std::int64_t sequence);
  // What an evaluation has come to: members of an object, as text.
  void append_evaluation(const std::string& members);
  // The job has this table.
  void append_table(std::int32_t table, const std::string& name);
  void append_rows(const RowsRecord& record);
  // A part of a table came from another server, with what these tickets have made of it: those below, and
  // ranges as TicketSet has them; or it has gone to others.
  void append_rows_given(std::int32_t table, int part, std::int64_t below,
                         const std::vector<std::int64_t>& ranges);
  void note_rows_forgotten(std::int32_t table, int part);
  // A replica begins the step of a ticket: its clock and that of the slowest (bounded).
  void append_begin(std::int32_t replica, std::int64_t clock, std::int64_t slowest, std::int64_t ticket);
  // A replica takes part in the dealing, with this clock, or does not any more.
  void note_joined(std::int32_t replica, std::int64_t clock);
  void note_left(std::int32_t replica);
  // At a replica: what it has fetched without a push, or when it came; versions of the slices of its share.
  void append_fetched(std::span<const std::int64_t> versions);
  // All servers have answered a push; versions of the slices, as they told them.
  void append_acknowledged(std::int64_t ticket, const std::vector<std::int64_t>& versions);
  // The same, and that a step was done before its push came to some slice (sync).
  void append_late(std::int64_t ticket, const std::vector<std::int64_t>& versions);

 private:
  void append_answers(const char* what, std::int64_t ticket, const std::vector<std::int64_t>& versions);
  void write_line(const std::string& line);
  void note(const std::string& line);

  std::mutex mutex_;
  std::filesystem::path path_;
  int file_ = -1;
};

// The log of a replica, and the folder that it is in; an empty path: none.
std::unique_ptr<UpdateLog> open_log_of_pushes(const std::filesystem::path& path);

// A job as its logs name it. Its own name, which nobody else is to know, cannot be told from it.
std::string job_mark(const std::string& job);

// A line of such a file.
struct LogLine {
  enum class Kind {
    kUpdate,
    kCommand,
    kEvaluation,
    kInstalled,
    kBegin,
    kJoined,
    kLeft,
    kAcknowledged,
    kLate,
    kJob,
    kOver,
    kTable,
    kRows,
    kRowsGiven,
    kRowsForgotten
  };
  Kind kind = Kind::kUpdate;
  UpdateRecord update{};     // update; command, installed: slice and version; others: the replica, the ticket
  std::int64_t number = 0;   // of a command, or an evaluation
  std::int64_t clock = 0;    // begin, joined
  std::int64_t slowest = 0;  // begin
  std::vector<std::int64_t> versions{};  // acknowledged, late
  std::string mark{};                    // job
  RowsRecord rows{};                     // of a table; given, forgotten: the table and the part's bit
  std::int64_t below = 0;                // given: tickets below this
  std::vector<std::int64_t> ranges{};    // and these
  bool operator==(const LogLine&) const = default;
};
// A last line that was cut short is passed over, and so are lines of other kinds. Throws Error(kBadInput)
// naming the line.
std::vector<LogLine> read_log(const std::filesystem::path& path);
// Whose log it is; empty: it does not say.
std::string mark_of_log(const std::filesystem::path& path);
std::vector<UpdateRecord> read_updates(const std::filesystem::path& path);

}  // namespace distbelief::server
