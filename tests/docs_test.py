"""The documentation: links that lead somewhere, commands and keys that the program knows, job files that it accepts.

A block that shows on purpose what the program refuses is preceded by a line `<!-- docs_test: not checked -->`.
"""
import concurrent.futures
import functools
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

import program

SOURCE = program.SOURCE
PAGES = sorted([*(SOURCE / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md")),
                *SOURCE.glob("docs/**/*.md")])
SKIPPED = "<!-- docs_test: not checked -->"
SHELLS = {"", "sh", "bash", "console", "shell"}
OTHER_TEXT = ("src", "include", "proto", "tools", "bench", "tests", "cmake", "examples", "fuzz")

FENCE = re.compile(r"^( *)(```+|~~~+) *([\w+-]*)")
HEADING = re.compile(r"^ {0,3}#{1,6} +(.*?)(?: +#+)? *$")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]: +(\S+)")
ANCHOR = re.compile(r"<[^>]+\b(?:id|name)=\"([^\"]+)\"")
CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
KEY = re.compile(r"^([a-z]+)\.([a-z][a-z0-9_]*)$")
FILE_ENDINGS = {"bin", "cc", "cls", "gz", "h", "html", "json", "jsonl", "key", "log", "md", "pem", "png", "pt", "pth", "py",
                "safetensors", "sexp", "sh", "sock", "svg", "tar", "toml", "txt"}
PAGE_NAMED = re.compile(r"\bdocs/[\w/.-]*\w\.(?:md|svg|json)\b")


def at(page, number):
    return f"{page.relative_to(SOURCE)}:{number}"


# ---- Pages

class Page:
    """A page's lines as prose and as blocks of code: (line number, language, text)."""

    def __init__(self, path):
        self.path = path
        self.prose = []  # (line number, line)
        self.blocks = []
        self._split(path.read_text(encoding="utf-8").splitlines())

    def _split(self, lines):
        number = 0
        while number < len(lines):
            fence = FENCE.match(lines[number])
            if fence:
                end = next((i for i in range(number + 1, len(lines)) if lines[i].strip() == fence[2]), len(lines))
                self._add(lines, number, fence[3], lines[number + 1:end], 2)
                number = end + 1
            elif lines[number].startswith("    ") and (number == 0 or not lines[number - 1].strip()):
                end = number
                while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                    end += 1
                self._add(lines, number, "", lines[number:end], 1)
                number = end
            else:
                self.prose.append((number + 1, lines[number]))
                number += 1

    def _add(self, lines, begin, language, text, first):
        before = next((line.strip() for line in reversed(lines[:begin]) if line.strip()), "")
        if before != SKIPPED:
            self.blocks.append((begin + first, language, "\n".join(text)))

    def anchors(self):
        found, seen = set(), {}
        for _, line in self.prose:
            found.update(ANCHOR.findall(line))
            heading = HEADING.match(line)
            if heading:
                name = slug(heading[1])
                found.add(name if name not in seen else f"{name}-{seen[name]}")
                seen[name] = seen.get(name, 0) + 1
        return found

    def links(self):
        for number, line in self.prose:
            line = CODE.sub("", line)
            for target in LINK.findall(line) + REFERENCE.findall(line):
                yield number, target

    def code(self):
        """Code inside of sentences."""
        for number, line in self.prose:
            for match in CODE.finditer(line):
                yield number, match[2]


def slug(heading):
    """The anchor that GitHub and the site give a heading."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"<[^>]+>|[`*]", "", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@functools.lru_cache(maxsize=None)
def page_of(path):
    return Page(path)


def dead_links(page):
    for number, target in page.links():
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.path.parent / path).resolve() if path else page.path
        if not other.exists():
            yield f"{at(page.path, number)}: {target}: there is no such file"
        elif anchor and other.suffix == ".md" and anchor not in page_of(other).anchors():
            yield f"{at(page.path, number)}: {target}: that page has no such heading"


# ---- Commands

@functools.lru_cache(maxsize=None)
def help_of(command):
    done = subprocess.run([program.PROGRAM, *command, "--help"], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(done.args)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def listed(text, title, pattern):
    section = re.search(rf"^{title}:\n(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return set(re.findall(pattern, section[1], re.MULTILINE)) if section else set()


def options_of(command):
    found = set()
    for names in listed(help_of(command), "Options", r"^  (-\S+)"):
        found.update(names.split(","))
    return found


GROUPS = ("Start", "Use", "While it trains", "Expert")  # of the program's commands


def subcommands_of(command):
    titles = ("Subcommands",) if command else GROUPS
    return set().union(*(listed(help_of(command), title, r"^  (\S+)") for title in titles))


def words_of(line):
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quote that ends on a later line
        return line.split()


def commands_in(text):
    """(line number in the text, words after the program's name) of every command of the program."""
    joined, first = "", 0
    for number, line in enumerate(text.splitlines()):
        first = first if joined else number
        joined += line.strip().removeprefix("$ ")
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        parted = re.sub(r"(&&|\|\||[;|&()](?=\s|$)|\$\()", " ;; ", joined)
        words, joined = words_of(parted), ""
        for index, word in enumerate(words):
            if word == "distbelief" or word.endswith("/bin/distbelief"):
                rest = words[index + 1:]
                # A name in a sentence, as of an error's message, is no command.
                if index and not words[index - 1].startswith(("-", ";;")) and not launched(words[:index]):
                    continue
                yield first, rest[:rest.index(";;")] if ";;" in rest else rest


LAUNCHERS = {"mpirun", "mpiexec", "srun", "nohup", "nice", "time", "timeout", "env", "tools/emulated_hosts", "do", "exec"}


def launched(words):
    return any(word in LAUNCHERS or "=" in word for word in words)


def wrong_in(words):
    """The reason why the program does not know this command; None if it does."""
    command = ()
    while words and subcommands_of(command) and not words[0].startswith("-"):
        if words[0] == words[0].upper():  # COMMAND
            return None
        if words[0] not in subcommands_of(command):
            return f"{' '.join(('distbelief', *command))} has no command {words[0]}"
        command, words = (*command, words[0]), words[1:]
    for word in words:
        if word == "--":
            return None
        name = word.split("=")[0]
        if re.fullmatch(r"--?[a-z][\w-]*", name) and name not in options_of(command):
            return f"{' '.join(('distbelief', *command))} has no option {name}"
    return None


def keys_set(words):
    """Keys that a command's --set names."""
    pairs = zip(words, [*words[1:], ""])
    values = [after for word, after in pairs if word == "--set"] + [word[6:] for word in words if word.startswith("--set=")]
    return [value.split("=")[0] for value in values]


@functools.lru_cache(maxsize=None)
def known_keys():
    """The keys of the reference's table, which a unit test compares with the program."""
    reference = next(path for path in PAGES if path.name == "job_file.md")
    rows = re.findall(r"^\| `([a-z_]+\.[a-z0-9_]+)` \|", reference.read_text(encoding="utf-8"), re.MULTILINE)
    if not rows:
        raise AssertionError(f"{reference} has no table of keys")
    return set(rows)


def is_wrong_key(text):
    """Whether this is a key of a section that the job file has, and not one of its keys. Models and data sets have more."""
    match = KEY.match(text)
    sections = {key.split(".")[0] for key in known_keys()} - {"model", "data"}
    return bool(match) and match[1] in sections and match[2] not in FILE_ENDINGS and text not in known_keys()


# ---- Job files

NOT_HERE = "errno 2 on fopen"  # libtorch's words for a TorchScript file that is not there


def job_files(page):
    sections = {key.split(".")[0] for key in known_keys()}
    for number, language, text in page.blocks:
        begins = re.match(r"\s*\[([a-z]+)\]", text)
        if language == "toml" or (not language and begins and begins[1] in sections):
            yield number, re.sub(r"^ {4}", "", text, flags=re.MULTILINE)


def refusal(job):
    """Why `distbelief check` refuses a job; None also where it cannot tell because a file of the example is not here."""
    with tempfile.TemporaryDirectory(prefix="distbelief-docs-") as folder:
        pathlib.Path(folder, "job.toml").write_text(job, encoding="utf-8")
        done = subprocess.run([program.PROGRAM, "check", "job.toml"], cwd=folder, capture_output=True, text=True, timeout=120,
                              check=False, env={**os.environ, "TMPDIR": folder})
    accepted = done.returncode in (0, 1) or NOT_HERE in done.stderr
    return None if accepted else done.stderr.strip() or f"ended with {done.returncode}"


class LinksTest(unittest.TestCase):
    """Needs no program."""

    def test_every_link_has_a_file_and_an_anchor(self):
        dead = [link for path in PAGES for link in dead_links(page_of(path))]
        self.assertEqual(dead, [], "\n" + "\n".join(dead))

    def test_links_lead_from_the_readme_to_every_page(self):
        reached = [SOURCE / "README.md"]
        for path in reached:
            targets = [(path.parent / target.partition("#")[0]).resolve() for _, target in page_of(path).links()]
            reached += [target for target in dict.fromkeys(targets) if target in PAGES and target not in reached]
        lost = [str(path.relative_to(SOURCE)) for path in PAGES if path not in reached]
        self.assertEqual(lost, [], "no link leads to " + ", ".join(lost))

    def test_pages_that_the_sources_name_are_there(self):
        files = [path for folder in OTHER_TEXT for path in (SOURCE / folder).rglob("*") if path.is_file()]
        files += [path for path in SOURCE.iterdir() if path.is_file() and path.suffix != ".md"]
        dead = []
        for path in files:
            if path.suffix in (".pyc", ".png", ".jpg", ".gz") or "corpus" in path.parts or path == pathlib.Path(__file__).resolve():
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
                dead += [f"{at(path, number)}: {name}" for name in PAGE_NAMED.findall(line) if not (SOURCE / name).exists()]
        self.assertEqual(dead, [], "\n" + "\n".join(dead))

    def test_job_files_have_the_keys_that_pages_name(self):
        pages = [page_of(path) for path in PAGES if path.name != "CHANGELOG.md"]
        wrong = [f"{at(page.path, number)}: the job file has no key {text}"
                 for page in pages for number, text in page.code() if is_wrong_key(text)]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))


class CommandsTest(unittest.TestCase):
    def check(self, blocks):
        """Blocks: (place, first line, text)."""
        wrong, seen = [], 0
        for place, first, text in blocks:
            for line, words in commands_in(text):
                seen += 1
                reasons = [wrong_in(words), *(f"the job file has no key {key}" for key in keys_set(words) if is_wrong_key(key))]
                wrong += [f"{place}:{first + line}: {reason}" for reason in reasons if reason]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))
        self.assertGreater(seen, 0, "no command was found")

    def test_the_program_knows_those_of_the_pages(self):
        self.check((page.path.relative_to(SOURCE), number, text) for page in map(page_of, PAGES)
                   for number, language, text in page.blocks if language in SHELLS)

    def test_the_reference_groups_them_as_the_help_does(self):
        reference = next(path for path in PAGES if path.name == "commands.md").read_text(encoding="utf-8")
        for group in GROUPS:
            section = re.search(rf"^## {group}\n(.*?)^## ", reference, re.MULTILINE | re.DOTALL)[1]
            named = set(re.findall(r"^    distbelief ([a-z]+)", section, re.MULTILINE))
            self.assertEqual(named, listed(help_of(()), group, r"^  (\S+)"), group)

    def test_the_program_knows_the_examples_of_its_own_help(self):
        commands = [()]
        for command in commands:
            commands += [(*command, name) for name in sorted(subcommands_of(command))]
        self.check((" ".join(("distbelief", *command)), 1, re.sub(r"(?s)\A.*?^Examples?:", "", help_of(command), flags=re.MULTILINE))
                   for command in commands)


class JobsTest(unittest.TestCase):
    def test_the_program_accepts_those_of_the_pages(self):
        jobs = [(page.path, number, job) for page in map(page_of, PAGES) for number, job in job_files(page)]
        self.assertTrue(jobs, "no job file was found")
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            refusals = pool.map(lambda job: refusal(job[2]), jobs)
        wrong = [f"{at(path, number)}: {reason}" for (path, number, _), reason in zip(jobs, refusals) if reason]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))


if __name__ == "__main__":
    program.main()
