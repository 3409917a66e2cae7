"""The tutorials: every command of a page, in its order, in an empty folder, with the output that the page shows."""
import os
import re
import subprocess

import program
from program import SOURCE

PAGES = SOURCE / "docs" / "tutorials"
BLOCK = re.compile(r"(?:Save this as `([^`]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d[\d.,:]*k?")
PER_CENT = re.compile(r"([\d.]+) ?%")
POINTS = 10  # by which a percentage may differ: other processors round in another way


class TutorialTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.folder = self.scratch / "empty"
        self.folder.mkdir()
        self.environment.update({
            "DISTBELIEF": str(SOURCE), "OMP_NUM_THREADS": "1",
            "PATH": f"{os.path.dirname(os.path.abspath(program.PROGRAM))}:{os.environ['PATH']}"})

    def follow(self, name):
        """Writes the page's files and runs its commands. Gives how many commands there were."""
        commands = 0
        for file, kind, text in BLOCK.findall((PAGES / f"{name}.md").read_text()):
            if file:
                (self.folder / file).write_text(text)
            for command, shown in self.commands(text) if kind == "console" else []:
                self.run_command(command, shown)
                commands += 1
        return commands

    def commands(self, text):
        """(command, lines shown below it) of a block."""
        parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
        self.assertEqual(parts[0], "", "a block of commands begins with one")
        return [(part.split("\n")[0], part.split("\n")[1:-1]) for part in parts[1:]]

    def run_command(self, command, shown):
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, timeout=120, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.returncode, 0, f"$ {command}\n{done.stdout}")
        printed = done.stdout.splitlines()
        missing = self.first_missing(shown, printed)
        self.assertIsNone(missing, f"$ {command}\n{done.stdout}\nThe page shows another line there: {missing}")
        if "..." not in shown:
            self.assertEqual(len(shown), len(printed), f"$ {command}\n{done.stdout}\nThe page shows fewer lines.")

    def first_missing(self, shown, printed):
        """The first line of the page that is not printed in its place, between the others. Numbers may be others,
        percentages by some points; "..." stands for any lines."""
        place = 0
        for line in shown:
            matching = [index for index in range(place, len(printed)) if self.is_like(printed[index], line)]
            if line != "..." and not matching:
                return line
            place = matching[0] + 1 if matching else place
        return None

    def is_like(self, printed, shown):
        if NUMBER.sub("0", printed) != NUMBER.sub("0", shown):
            return False
        return all(abs(float(found) - float(wanted)) <= POINTS
                   for found, wanted in zip(PER_CENT.findall(printed), PER_CENT.findall(shown)))


class TableTest(TutorialTest):
    def test_my_table(self):
        self.assertGreater(self.follow("my_table"), 8)


class PhotosTest(TutorialTest):
    def test_my_photos(self):
        self.assertGreater(self.follow("my_photos"), 6)


class LoopTest(TutorialTest):
    def test_my_libtorch_loop(self):
        # The page says that the library is built; a build of the tests is where they say.
        build = os.environ.get("DISTBELIEF_BUILD_DIR", str(SOURCE / "build" / "release"))
        clone = self.scratch / "clone"
        (clone / "build").mkdir(parents=True)
        (clone / "build" / "release").symlink_to(build)
        self.environment["DISTBELIEF"] = str(clone)
        self.assertGreater(self.follow("my_libtorch_loop"), 5)


if __name__ == "__main__":
    program.main()
