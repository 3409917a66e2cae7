#!/usr/bin/env python3
"""Counts the tests of a JUnit file that ctest wrote; the last line reads "N passed, N failed, N skipped".

A test may be skipped only for a reason that begins with "this machine cannot:"; any other skip is a failure,
and so is a run without tests. Exit status 0 when nothing failed, else 1.
"""
import argparse
import sys
import xml.etree.ElementTree as ElementTree

EXCUSE = "this machine cannot:"


def gtest_skip_reasons(lines):
    """GoogleTest prints "file:line: Skipped" (or "Skipped" without a file) and on the next line the reason."""
    return [
        following.strip()
        for line, following in zip(lines, lines[1:] + [""])
        if line == "Skipped" or line.endswith(": Skipped")
    ]


def script_skip_reasons(lines):
    excuses = [line for line in lines if line.startswith(EXCUSE)]
    return excuses or [next((line for line in reversed(lines) if line.strip()), "no reason given")]


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

    verdicts = [(case.get("name"), *judge(case)) for case in read_cases(arguments.results)]
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
