#!/usr/bin/env python3
"""Counts the tests of a JUnit file that ctest wrote; the last line reads "N passed, N failed, N skipped".

A test of ctest may be a whole suite of GoogleTest: then each of its tests counts.
Of a Python test class every skip counts, and the class is one test.
A test may be skipped only for a reason that begins with "this machine cannot:"; any other skip is a failure,
and so is a run without tests. Exit status 0 when nothing failed, else 1.
"""
import argparse
import sys
import xml.etree.ElementTree as ElementTree

EXCUSE = "this machine cannot:"
SKIP_MARK = "skipped: "  # of tests/program.py
RUN = "[ RUN      ] "
OUTCOMES = {"[       OK ] ": ("passed", ""), "[  FAILED  ] ": ("failed", ""), "[  SKIPPED ] ": ("skipped", "")}


def gtest_skip_reasons(lines):
    """GoogleTest prints "file:line: Skipped" (or "Skipped" without a file) and on the next line the reason."""
    return [
        following.strip()
        for line, following in zip(lines, lines[1:] + [""])
        if line == "Skipped" or line.endswith(": Skipped")
    ]


def script_skip_reasons(lines):
    """A class of tests/program.py marks every skip; another script has one reason, the excuse or else its last words."""
    marked = [line.removeprefix(SKIP_MARK) for line in lines if line.startswith(SKIP_MARK)]
    excuses = [line for line in lines if line.startswith(EXCUSE)]
    return marked or excuses or [next((line for line in reversed(lines) if line.strip()), "no reason given")]


def judge(case):
    """(verdict, reason) of one test case; verdict is passed, failed or skipped."""
    status = case.get("status")
    output = case.findtext("system-out") or ""
    lines = output.splitlines()
    if status == "fail":
        return "failed", ""
    if status == "disabled":
        return "failed", "disabled"

    skipped = case.find("skipped")
    message = skipped.get("message", "") if skipped is not None else ""
    if status == "notrun" and not message.startswith("SKIP_"):
        return "failed", message or "not run"

    gtest_skipped = any(line.startswith("[  SKIPPED ]") for line in lines)
    if status == "run" and not gtest_skipped:
        return "passed", ""
    reasons = (gtest_skip_reasons(lines) if gtest_skipped else []) or script_skip_reasons(lines)
    unexcused = [reason for reason in reasons if not reason.startswith(EXCUSE)]
    if unexcused:
        return "failed", f'skipped, and not because "{EXCUSE} ...": {unexcused[0]}'
    return "skipped", reasons[0]


def gtest_results(lines):
    """The tests of GoogleTest that began, in order: name -> [lines], up to where the next one began."""
    tests, current = {}, None
    for line in lines:
        if line.startswith(RUN):
            current = tests.setdefault(line[len(RUN):].strip(), [])
        elif line.startswith("[----------]") or line.startswith("[==========]"):
            current = None
        elif current is not None:
            current.append(line)
    return tests


def judge_all(case):
    """[(name, verdict, reason)]: of each test in a suite, else of the case itself."""
    name = case.get("name")
    tests = gtest_results((case.findtext("system-out") or "").splitlines())
    if not tests or not name.endswith("." + next(iter(tests)).split(".")[0]):  # of another kind, such as ranks of MPI
        return [(name, *judge(case))]
    found = []
    for test, lines in tests.items():
        outcome = next((mark for line in lines for mark in OUTCOMES if line.startswith(mark + test)), None)
        verdict, reason = OUTCOMES.get(outcome, ("failed", "it did not end"))
        if verdict == "skipped":
            unexcused = [why for why in gtest_skip_reasons(lines) if not why.startswith(EXCUSE)]
            if unexcused:
                verdict, reason = "failed", f'skipped, and not because "{EXCUSE} ...": {unexcused[0]}'
            else:
                reason = (gtest_skip_reasons(lines) or ["no reason given"])[0]
        found.append((name.split(".")[0] + "." + test, verdict, reason))
    if case.get("status") == "fail" and all(verdict != "failed" for _, verdict, _ in found):
        found.append((name, "failed", "the suite failed outside its tests"))
    return found


def read_cases(path):
    try:
        return ElementTree.parse(path).getroot().findall("testcase")
    except (OSError, ElementTree.ParseError) as error:
        print(f"count_tests: no test results: {error}")
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", help="JUnit file of ctest --output-junit")
    parser.add_argument("--ctest-status", type=int, default=0, help="exit status of ctest")
    arguments = parser.parse_args()

    verdicts = [verdict for case in read_cases(arguments.results) for verdict in judge_all(case)]
    for verdict in ("skipped", "failed"):
        for name, found, reason in verdicts:
            if found == verdict:
                print(f"{verdict}: {name}" + (f": {reason}" if reason else ""))
    counts = {v: sum(found == v for _, found, _ in verdicts) for v in ("passed", "failed", "skipped")}
    failed = counts["failed"] > 0 or not verdicts
    if not verdicts:
        print("failed: no test was run")
    elif arguments.ctest_status != 0 and counts["failed"] == 0:
        print(f"failed: ctest itself ended with status {arguments.ctest_status}")
        failed = True
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
