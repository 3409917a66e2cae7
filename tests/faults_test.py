"""What tools/chaos takes from the logs of a run with parameter servers: no pause, however long, may go unseen."""
import sys
import unittest

import program
from program import SOURCE

sys.path.insert(0, str(SOURCE / "tools"))
from faults.pauses import Kill, Push, lost_tickets, pauses  # noqa: E402
from faults.run import Failure  # noqa: E402


def steady(begin, end, every=0.125):
    return [begin + i * every for i in range(int((end - begin) / every))]


class PausesTest(unittest.TestCase):
    def test_a_replica_that_goes_on_has_not_paused(self):
        self.assertEqual(pauses({0: steady(0, 20)}, [Kill(5, "primary", 7)], 20), [("primary", 0.125)])

    def test_a_pause_longer_than_anyone_watches_is_seen_whole(self):
        times = {0: [*steady(0, 5), *steady(15, 20)], 1: steady(0, 20)}
        [(kind, seconds)] = pauses(times, [Kill(5, "backup", 7)], 20)
        self.assertEqual((kind, seconds), ("backup", 10.125))

    def test_a_replica_that_never_pushes_again_has_paused_to_the_end(self):
        self.assertEqual(pauses({0: steady(0, 5), 1: steady(0, 20)}, [Kill(5, "primary", 7)], 20), [("primary", 15.125)])

    def test_a_later_pause_belongs_to_the_last_kill_before_it(self):
        times = {0: [*steady(0, 12), *steady(14, 20)]}
        kills = [Kill(5, "primary", 7), Kill(10, "backup", 8), Kill(16, "primary", 9)]
        self.assertEqual(pauses(times, kills, 20), [("primary", 0.125), ("backup", 2.125), ("primary", 0.125)])

    def test_who_was_killed_himself_is_away_until_he_pushes_again(self):
        times = {0: steady(0, 20), 1: [*steady(0, 5), 5.01, *steady(9, 20)]}  # 5.01: while it died
        kills = [Kill(5, "replica", 1), Kill(7, "primary", 7), Kill(12, "backup", 8)]
        self.assertEqual([round(seconds, 3) for _, seconds in pauses(times, kills, 20)], [0.125] * 3)
        times[1] = [*steady(0, 5), *steady(9, 12), *steady(14, 20)]
        self.assertEqual(pauses(times, kills, 20)[2], ("backup", 2.125))

    def test_when_nobody_was_there_nothing_is_known(self):
        for times in ({}, {0: []}, {0: steady(6, 20)}, {0: steady(0, 20)}):
            with self.assertRaisesRegex(Failure, "nothing is known"):
                pauses(times, [Kill(5, "replica", 0)], 20)


class TicketsTest(unittest.TestCase):
    def test_what_was_under_way_at_the_end_is_not_lost(self):
        pushes = [Push(float(ticket), ticket) for ticket in range(100) if ticket not in (96, 98)]
        self.assertEqual(lost_tickets(pushes, 90, 2), [])

    def test_one_old_ticket_that_nobody_did_is_lost(self):
        pushes = [Push(float(ticket), ticket) for ticket in range(100) if ticket not in (17, 98)]
        self.assertEqual(lost_tickets(pushes, 90, 2), [17])

    def test_so_are_more_than_can_be_under_way(self):
        pushes = [Push(float(ticket), ticket) for ticket in range(100) if ticket not in (95, 96, 98)]
        self.assertEqual(lost_tickets(pushes, 90, 2), [95, 96, 98])


if __name__ == "__main__":
    program.main()
