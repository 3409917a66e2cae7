"""What replicas' logs say of a run in which others were killed: how long each paused, and which tickets nobody did. Pure."""
import collections

from faults.run import require

# So soon nobody is back: what a replica pushed until then it pushed before it died.
DYING_SECONDS = 0.25

Kill = collections.namedtuple("Kill", "at kind who")  # unix seconds; replica, primary or backup; its number
Push = collections.namedtuple("Push", "at ticket")  # when a replica was told that it is done


def lives(times, deaths, end):
    """Times of a replica's pushes, cut where it was killed. Each life is known from its first push on, and ends with the
    moment at which it was killed, or the run `end`ed: who has not pushed since his last push has paused until then."""
    found, left = [], sorted(times)
    for death in [*sorted(deaths), end]:
        dying = DYING_SECONDS if death != end else 0.0
        life = [at for at in left if at <= death + dying]
        left = left[len(life):]
        if life:
            found.append([*life, max(death, life[-1])])
    return found


def gaps_of(life):
    return list(zip(life, life[1:]))


def longest_pause(life, at, until):
    """After a kill: of the gap that it fell into, and of those between it and the next one."""
    return max(later - earlier for earlier, later in gaps_of(life)
               if earlier <= at < later or (at < earlier and later <= until))


def pauses(times, kills, end):
    """The longest pause of any other replica that was there, for each kill: (kind, seconds). `times` of pushes by replica."""
    deaths = collections.defaultdict(list)
    for kill in kills:
        if kill.kind == "replica":
            deaths[kill.who].append(kill.at)
    known = [(replica, life) for replica, at in times.items() for life in lives(at, deaths[replica], end)]
    found = []
    for kill, until in zip(kills, [*(later.at for later in kills[1:]), end]):
        victim = kill.who if kill.kind == "replica" else None
        there = [longest_pause(life, kill.at, until) for replica, life in known
                 if replica != victim and life[0] <= kill.at < life[-1]]
        require(there, f"nothing is known of the others when {kill.kind} {kill.who} was killed: none had pushed")
        found.append((kill.kind, max(there)))
    return found


def lost_tickets(pushes, settled, under_way):
    """Of a run that was stopped: tickets that no replica was told to be done, though newer ones were by the time `settled`;
    and if more than those that may be `under_way` are not done, all of them."""
    done = {push.ticket for push in pushes}
    old = max((push.ticket for push in pushes if push.at <= settled), default=0)
    missing = [ticket for ticket in range(max(done, default=0)) if ticket not in done]
    return missing if len(missing) > under_way else [ticket for ticket in missing if ticket < old]
