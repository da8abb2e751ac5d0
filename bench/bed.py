"""What the measurements of this directory share: ports, cores, processes and their cost.

A program of this directory starts with `sys.dont_write_bytecode = True` before it imports
this file, so that nothing is left in the sources.
"""

import contextlib
import dataclasses
import http.client
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

BENCH = pathlib.Path(__file__).resolve().parent
PROJECT = BENCH.parent
sys.path.append(str(PROJECT / "scripts"))

import ports

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
START_TIMEOUT_S = 10


class Failure(Exception):
    """An error that ends the measurement, with a message for the user."""


@dataclasses.dataclass(frozen=True)
class Bed:
    """The directory, ports and cores of one run."""

    directory: pathlib.Path
    backend_port: int
    proxy_core: int
    load_core: int
    lua: str
    stack: contextlib.ExitStack

    def make_certificate(self, rsa=False):
        """One certificate for all proxies, because its key determines the cost of a handshake: P-256, or RSA of 2,048 bits."""
        key = ["rsa:2048"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        command = ["openssl", "req", "-x509", "-newkey", *key, "-nodes"]
        command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "1"]
        command += ["-keyout", "key.pem", "-out", "cert.pem"]
        subprocess.run(command, cwd=self.directory, check=True, capture_output=True)
        parts = [(self.directory / name).read_text() for name in ["cert.pem", "key.pem"]]
        (self.directory / "both.pem").write_text("".join(parts))

    def fill_in(self, template, **values):
        """Writes a configuration into the directory, with its @NAMES@ replaced."""
        text = (BENCH / template).read_text()
        values |= {"directory": self.directory, "backend_port": self.backend_port, "bench": BENCH}
        for name, value in values.items():
            text = text.replace(f"@{name.upper()}@", str(value))
        descriptor, path = tempfile.mkstemp(suffix=f"-{template}", dir=self.directory)
        with open(descriptor, "w") as file:
            file.write(text)
        return path

    def start(self, core, *command, **settings):
        """Starts a program on one core. The end of the run stops it."""
        process = subprocess.Popen(["taskset", "--cpu-list", str(core), *command], **settings)
        self.stack.callback(stop, process)
        return process

    def start_backend(self):
        """The server behind all proxies: small responses at the lowest cost, and one of 100 KiB."""
        (self.directory / "large").write_bytes(b"0123456789abcdef" * 6400)
        path = self.fill_in("nginx-backend.conf", user=nginx_user(), body=("64 bytes a line." * 64))
        backend = self.start(self.load_core, *nginx_command(self, path))
        wait_until_it_answers("the backend", self.backend_port, backend)


@contextlib.contextmanager
def made(lua="", one_core_is_enough=False):
    """A bed with a running backend. All that it starts ends with the block."""
    proxy_core, load_core = two_cores(one_core_is_enough)
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bed = Bed(directory, free_port(), proxy_core, load_core, lua, stack)
        bed.start_backend()
        yield bed


def two_cores(one_is_enough=False):
    """The core of the program that is measured, and that of the load."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 and not one_is_enough:
        raise Failure("two cores are needed: one for the program that is measured, one for the load")
    return cores[0], cores[min(1, len(cores) - 1)]


def run_main(name, main):
    """Runs a program of this directory. However it ends, the processes that it started end too."""
    for signal_number in [signal.SIGTERM, signal.SIGHUP]:
        signal.signal(signal_number, lambda number, _frame: sys.exit(128 + number))
    try:
        main()
    except Failure as failure:
        sys.exit(f"{name}: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)


def need_programs(programs):
    """Fails if a program is missing; `programs` has the Debian package of each."""
    missing = {program: package for program, package in programs.items() if shutil.which(program) is None}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise Failure(f"{', '.join(missing)} is missing: apt-get install {packages}")


def nginx_command(bed, path):
    return ["nginx", "-p", str(bed.directory), "-c", path, "-e", "stderr", "-g", "daemon off;"]


def nginx_user():
    """The workers of an nginx that root has started may read the directory of the run."""
    return "user root;" if os.geteuid() == 0 else ""


def tollgate_program():
    """The release build of the current sources, because an old build would be measured unnoticed."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--bin", "tollgate"]
    if subprocess.run(command, cwd=PROJECT).returncode != 0:
        raise Failure("Tollgate does not build: see above")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    return PROJECT / target / "release" / "tollgate"


# --- Processes, as the kernel reports them.


def process_tree(pid):
    """`pid` and all its descendants."""
    pids = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            pids += process_tree(int(child))
    return pids


def cpu_times_us(pids):
    """User and system time of the processes so far, including threads.

    Their sum is exact; the kernel divides it by the mode in which each tick finds a process.
    """
    user = system = 0
    for pid in pids:
        # The second field is a name in parentheses that can itself contain blanks and parentheses.
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        user, system = user + int(fields[11]), system + int(fields[12])
    return user * 1_000_000 / TICKS_PER_SECOND, system * 1_000_000 / TICKS_PER_SECOND


def cpu_us(pids):
    """User and system time of the processes so far, together."""
    return sum(cpu_times_us(pids))


def core_us(core):
    """Time that all programs together have spent on one core so far."""
    lines = pathlib.Path("/proc/stat").read_text().splitlines()
    user, nice, system = next(line for line in lines if line.startswith(f"cpu{core} ")).split()[1:4]
    return (int(user) + int(nice) + int(system)) * 1_000_000 / TICKS_PER_SECOND


def resident_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kib) / 1024


def free_port():
    return ports.reserve(1)[0]


def stop(process):
    process.terminate()
    try:
        process.wait(START_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_port(label, port, process):
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise Failure(f"{label} does not listen on port {port}")


def wait_until_it_answers(label, port, process, has_tls=False, statuses=(200,)):
    deadline = time.monotonic() + START_TIMEOUT_S
    problem = "no answer"
    while time.monotonic() < deadline and process.poll() is None:
        try:
            connection = connect(port, has_tls)
            connection.request("GET", "/orders", headers={"X-Api-Key": "first"})
            response = connection.getresponse()
            response.read()
            if response.status in statuses:
                return
            problem = f"status {response.status}"
        except (OSError, http.client.HTTPException) as error:
            problem = str(error)
        finally:
            connection.close()
        time.sleep(0.05)
    ended = "" if process.poll() is None else f", it ended with {process.returncode}"
    raise Failure(f"{label} does not serve on port {port}: {problem}{ended}")


def connect(port, has_tls):
    if not has_tls:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    unverified = ssl._create_unverified_context()
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=1, context=unverified)
