#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace distbelief::server {

// One update of one slice. The first values, the gradients (which depend on the parameters that the replica
// had; its own log says which) and the records of a slice in the order of versions determine its values.
struct UpdateRecord {
  std::int64_t slice = 0;
  std::int64_t version = 0;  // made by this update
  std::int64_t ticket = 0;
  std::int32_t replica = 0;
  std::int64_t base = 0;           // version from which the gradient was computed
  double lr = 0;                   // the rate used
  std::vector<std::int32_t> of{};  // replicas whose gradients it sums (sync)
  bool operator==(const UpdateRecord&) const = default;
};

// The effect of a push on a table's rows in some of its parts. Parts without rows count too: a ticket is in
// all of them.
struct RowsRecord {
  struct Part {
    int part = 0;
    std::int64_t rows = 0;
    std::int64_t ids = 0;  // a checksum of their ids, independent of order
    void add(std::uint64_t id);
    bool operator==(const Part&) const = default;
  };
  std::int32_t table = 0;
  std::int64_t ticket = 0;
  std::int32_t replica = 0;
  std::uint64_t parts = 0;   // a bit for each
  std::vector<Part> rows{};  // only of parts that have any
  bool operator==(const RowsRecord&) const = default;
};

// A file of lines, one per update or deal, in the order in which they took effect. When append() returns, the
// line is in the file, though perhaps not on the disk: a killed process loses none. A line that cannot be
// written leaves nothing behind and throws Error(kUnavailable). A failed note_...() only loses its line, and
// the server's own log says so. Thread safe.
class UpdateLog {
 public:
  // Appends to an existing file. Throws Error(kUnavailable).
  explicit UpdateLog(const std::filesystem::path& path);
  ~UpdateLog();
  UpdateLog(const UpdateLog&) = delete;
  UpdateLog& operator=(const UpdateLog&) = delete;

  // append_job() names the job of the updates that follow. note_over() records that the job is over on this
  // server: later events of the server do not matter.
  void append_job(const std::string& mark);
  void note_over();
  void append(const UpdateRecord& record);
  // A slice came from another server, at this version.
  void append_installed(std::int64_t slice, std::int64_t version);
  // A slice has run a command (sandblaster).
  void append_command(std::int64_t slice, std::int64_t version, std::int64_t sequence);
  // The result of an evaluation: members of a JSON object, as text.
  void append_evaluation(const std::string& members);
  // The job has this table.
  void append_table(std::int32_t table, const std::string& name);
  void append_rows(const RowsRecord& record);
  // A part of a table came from another server, with the effects of these tickets: those below `below`, and
  // ranges as in TicketSet. note_rows_forgotten(): the part has gone to other servers.
  void append_rows_given(std::int32_t table, int part, std::int64_t below,
                         const std::vector<std::int64_t>& ranges);
  void note_rows_forgotten(std::int32_t table, int part);
  // A replica begins the step of a ticket: its clock and the slowest replica's (bounded).
  void append_begin(std::int32_t replica, std::int64_t clock, std::int64_t slowest, std::int64_t ticket);
  // A replica joins the dealing with this clock, or leaves it.
  void note_joined(std::int32_t replica, std::int64_t clock);
  void note_left(std::int32_t replica);
  // At a replica: a fetch without a push, or its join; versions of the slices of its share.
  void append_fetched(std::span<const std::int64_t> versions);
  // All servers have answered a push; versions of the slices, from the answers.
  void append_acknowledged(std::int64_t ticket, const std::vector<std::int64_t>& versions);
  // The same, but some slice had done the step before its push arrived (sync).
  void append_late(std::int64_t ticket, const std::vector<std::int64_t>& versions);

 private:
  void append_answers(const char* what, std::int64_t ticket, const std::vector<std::int64_t>& versions);
  void write_line(const std::string& line);
  void note(const std::string& line);

  std::mutex mutex_;
  std::filesystem::path path_;
  int file_ = -1;
};

// Opens the log of a replica and makes its folder; null for an empty path.
std::unique_ptr<UpdateLog> open_log_of_pushes(const std::filesystem::path& path);

// A job's name in its logs. It does not reveal the job's own name, which is a secret.
std::string job_mark(const std::string& job);

// One line of such a file.
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
  UpdateRecord update{};     // update; command, installed: slice and version; others: replica and ticket
  std::int64_t number = 0;   // of a command, or an evaluation
  std::int64_t clock = 0;    // begin, joined
  std::int64_t slowest = 0;  // begin
  std::vector<std::int64_t> versions{};  // acknowledged, late
  std::string mark{};                    // job
  RowsRecord rows{};                     // of a table; given, forgotten: the table and the part's bit
  std::int64_t below = 0;                // given: all tickets below it
  std::vector<std::int64_t> ranges{};    // given: and these
  bool operator==(const LogLine&) const = default;
};
// Skips an incomplete last line and lines of other kinds. Throws Error(kBadInput) naming the line.
std::vector<LogLine> read_log(const std::filesystem::path& path);
// The job's mark; empty: the log does not say.
std::string mark_of_log(const std::filesystem::path& path);
std::vector<UpdateRecord> read_updates(const std::filesystem::path& path);

}  // namespace distbelief::server
