"""A page in Debian's chromium, without a window: its console and what the scripts made of it."""
import re
import shutil
import subprocess

import program


def chromium():
    return shutil.which("chromium") or program.cannot("show a page: there is no chromium (apt-get install chromium)")


def load(page, profile, dark=False):
    """Gives (document after its scripts ran, lines of the console)."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--proxy-server=127.0.0.1:9", "--enable-logging=stderr", "--v=0",
             "--virtual-time-budget=2000", f"--user-data-dir={profile}", "--window-size=1320,1800"]
    if dark:
        flags.append("--blink-settings=preferredColorScheme=0")
    done = subprocess.run([chromium(), *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True,
                          timeout=80, check=False)
    if done.returncode != 0:
        raise AssertionError(f"chromium ended with {done.returncode}: {done.stderr[-300:]}")
    return done.stdout, re.findall(r".*:CONSOLE[(:].*", done.stderr)
