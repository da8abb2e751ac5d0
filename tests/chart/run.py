#!/usr/bin/env python3
"""The chart and the manifests of packaging, without a cluster: run.py TOLLGATE DIRECTORY

The chart is rendered by Helm's own library. Objects are judged by the schemas of Kubernetes 1.25 to 1.37,
by checkov, and by the expectations of cases.py. Each gateway.yaml is judged by the program. DIRECTORY is
for files.
"""

import contextlib
import copy
import http.client
import json
import pathlib
import signal
import subprocess
import sys
import time

import helm_python
import kubernetes_validate
import yaml
from helm_python import _native

sys.dont_write_bytecode = True
PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(PROJECT / "scripts"))

import ports
from cases import ABSENT, CASES, REDIS, REFUSED, config

CHART = PROJECT / "packaging/chart"
MANIFESTS = PROJECT / "packaging/kubernetes"
# The variants that run gateway.yaml with the base.
VARIANTS = ["gateway", "gateway-redis", "ratelimit"]
VERSIONS = [f"1.{minor}" for minor in range(25, 38)]
# Kinds of others, whose schemas kubernetes-validate does not have.
FOREIGN = ["ServiceMonitor", "PodMonitor", "PrometheusRule"]
# What checkov wants and the chart does not have.
SKIPPED = {
    "CKV_K8S_11": "a limit of CPU delays requests; runtime.workers bounds the use",
}
SKIPPED_AT_XDS = {"CKV_K8S_35": "the address of Redis is in the environment, as Envoy Gateway has it"}


# Objects that the schema of a version accepts. Most values change few objects.
accepted = set()


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Chart:
    def __init__(self, path):
        self.chart = helm_python.Chart.load(path)

    def render(self, values=None, version="1.37", namespace="web"):
        """The objects by KIND/NAME, and the notes."""
        options = {"name": "tollgate", "namespace": namespace, "kube_version": f"{version}.0"}
        values = json.dumps(values) if values else None
        rendered = json.loads(_native.call_string("helm_render", self.chart._raw(), values, json.dumps(options)))
        notes = next(text for path, text in rendered.items() if path.endswith("NOTES.txt"))
        texts = [text for path, text in rendered.items() if path.endswith(".yaml")]
        return objects("\n---\n".join(texts)), notes


def objects(text):
    found = {}
    for it in yaml.load_all(text, yaml.CSafeLoader):
        if it:
            name = f"{it['kind']}/{it['metadata']['name']}"
            expect(name not in found, f"{name} exists twice")
            found[name] = it
    return found


def at(found, path):
    """The value at a path of cases.py. The name of an environment variable is a key, too."""
    name, *keys = path.split(" ")
    value = found.get(name, ABSENT)
    for key in keys:
        if value is ABSENT:
            return ABSENT
        if isinstance(value, list) and key.isdigit():
            value = value[int(key)] if int(key) < len(value) else ABSENT
        elif isinstance(value, list):
            named = [it for it in value if it.get("name") == key]
            value = named[0].get("value", named[0].get("valueFrom")) if named else ABSENT
        else:
            value = value.get(key, ABSENT)
    return value


def merged(first, second):
    """Values in which those of `second` win."""
    result = dict(first)
    for key, value in second.items():
        is_section = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if is_section else value
    return result


def leaves(values, path=""):
    """The paths of all values. An empty section is a value."""
    if not isinstance(values, dict) or not values:
        yield path
        return
    for name, value in values.items():
        yield from leaves(value, f"{path}.{name}".lstrip("."))


def valid(found, version, what):
    for name, it in found.items():
        known = version, json.dumps(it)
        if it["kind"] in FOREIGN or known in accepted:
            continue
        try:
            kubernetes_validate.validate(it, version, strict=True)
            accepted.add(known)
        except kubernetes_validate.ValidationError as error:
            raise Failure(f"{what}: {name} in Kubernetes {version}: {error.message}") from error


class Program:
    """tollgate check, with files where a pod has them."""

    def __init__(self, path, directory):
        self.path, self.directory = path, directory
        self.checked = set()

    def check(self, text, what, files=()):
        redis = self.directory / "redis"
        redis.mkdir(exist_ok=True)
        for name in ["url", "address"]:
            (redis / name).write_text("redis://redis.default.svc:6379\n")
        for name, content in dict(files).items():
            (self.directory / name).write_text(content)
        file = self.directory / "gateway.yaml"
        file.write_text(text.replace("/run/secrets/redis", str(redis)))
        done = subprocess.run([self.path, "check", "--json", "-c", file], capture_output=True, text=True)
        found = json.loads(done.stdout)
        expect(done.returncode == 0 and not found["warnings"], f"{what}: {done.stdout}")
        self.checked.add(text)
        return found["needs_restart"]

    def check_all(self, found, what):
        for it in found.values():
            data = it.get("data", {}) if it["kind"] == "ConfigMap" else {}
            text = data.get("gateway.yaml")
            if text and text not in self.checked:
                self.check(text, what, {name: it for name, it in data.items() if name != "gateway.yaml"})


def the_chart_is_well_formed(chart, program, directory):
    report = helm_python.lint(CHART, strict=True)
    loud = [it for it in report["messages"] if it["severity"] > 1]
    expect(not loud and not report["errors"], f"helm lint: {report}")
    archive = Chart(helm_python.package(CHART, destination=directory))
    expect(archive.render()[0] == chart.render()[0], "the packaged chart makes other objects")


def each_switch_does_what_it_says(chart, program, directory):
    defaults, _ = chart.render()
    used = set()
    for values, expected in CASES:
        used.update(leaves(values))
        for version in [VERSIONS[0], VERSIONS[-1]]:
            found, _ = chart.render(values, version)
            valid(found, version, values)
        program.check_all(found, values)
        for path, value in expected.items():
            got = at(found, path)
            expect(got == value, f"{values}: {path} is {got if got is not ABSENT else 'absent'}")
        changed = any(at(defaults, path) != value for path, value in expected.items())
        expect(changed, f"{values}: the same holds without them")
    own = leaves(yaml.safe_load((CHART / "values.yaml").read_text()))
    missing = [it for it in own if not any(path == it or path.startswith(f"{it}.") for path in used)]
    expect(not missing, f"cases.py has no case for {missing}")


def all_switches_work_together(chart, program, directory):
    together = {}
    for values, _ in CASES:
        is_apart = values.get("mode") or "existingConfigMap" in values or "config" in values
        if not is_apart:
            together = merged(together, values)
    together = merged(together, {"rollout": "always", "config": config(more=REDIS), "redis": {"existingSecret": "redis"}})
    for version in VERSIONS:
        for values in [together, {}]:
            found, _ = chart.render(values, version)
            valid(found, version, values)
    program.check_all(found, "all together")
    found, _ = chart.render(together)
    kinds = {it["kind"] for it in found.values()}
    expect(kinds >= {*FOREIGN, "HorizontalPodAutoscaler", "NetworkPolicy"}, f"only {kinds}")
    name = next(it for it in found if it.startswith("Deployment/"))
    labels = found[name]["spec"]["template"]["metadata"]["labels"]
    for it in found.values():
        spec = it.get("spec", {})
        selectors = [spec.get("podSelector"), spec.get("selector")]
        for selector in filter(None, selectors):
            wanted = selector.get("matchLabels", selector)
            wanted = {key: value for key, value in wanted.items() if key != "tollgate/metrics"}
            expect(wanted.items() <= labels.items(), f"{it['kind']} selects {wanted}, and pods have {labels}")
    # Before 1.30 there is no preStop.sleep, so the pod needs no time for it.
    old, _ = chart.render(version="1.29")
    expect(at(old, "Deployment/tollgate spec template spec terminationGracePeriodSeconds") == 35, "1.29: 35 s")


def misspelt_and_wrong_values_are_refused(chart, program, directory):
    def sections(schema, path=()):
        if schema.get("additionalProperties") is False:
            yield path
        for name, it in schema.get("properties", {}).items():
            yield from sections(it, (*path, name))

    count = 0
    for path in sections(json.loads((CHART / "values.schema.json").read_text())):
        values = {"replcas": 3}
        for name in reversed(path):
            values = {name: values}
        refused(chart, values, "replcas")
        count += 1
    expect(count > 10, f"only {count} sections have a schema")
    for values, message in REFUSED:
        refused(chart, values, message)
    own = yaml.safe_load((CHART / "values.yaml").read_text())
    told = json.loads((CHART / "values.schema.json").read_text())["properties"].keys() - {"global"}
    expect(told == own.keys(), f"the schema and values.yaml differ: {told ^ own.keys()}")


def refused(chart, values, message):
    try:
        chart.render(values)
    except helm_python.HelmError as error:
        expect(message in str(error), f"{values}: the message does not have {message!r}: {error}")
        return
    raise Failure(f"{values}: accepted, although {message!r}")


def template(chart, **values):
    found, _ = chart.render(values)
    return found["Deployment/tollgate"]["spec"]["template"]


def pods_start_anew_for_what_needs_it(chart, program, directory):
    list_of_program = program.check(config(), "the configuration of the tests")
    list_of_chart = json.loads((CHART / "files/needs-restart.json").read_text())
    for name in ["settings", "except"]:
        expect(list_of_program[name] == list_of_chart[name], f"files/needs-restart.json: {name} differs from the program's")

    def compared(first, second, **values):
        same = template(chart, config=first, **values) == template(chart, config=second, **values)
        same_digest = program.check(first, first)["digest"] == program.check(second, second)["digest"]
        return same, same_digest

    redis = 'store: {{ redis: {{ url: "redis://a", {} }} }}\n'
    for first, second, is_same in [
        ({"limit": 10}, {"limit": 20}, True),
        ({"more": "store: { memory: { max_keys: 1000000 } }\n"}, {"more": "store: { memory: { max_keys: 2000000 } }\n"}, False),
        ({"more": redis.format("timeout: 20ms")}, {"more": redis.format("timeout: 30ms")}, False),
        ({"more": redis.format("password: a")}, {"more": redis.format("password: b")}, True),
        ({"more": redis.format("connections: 1")}, {"more": redis.format("connections: 2")}, True),
        ({}, {"more": "telemetry: { log: { level: debug } }\n"}, False),
        ({}, {"more": "runtime: { workers: 2 }\n"}, False),
        ({}, {"more": "runtime: { body_memory: 1MiB }\n"}, True),
    ]:
        first, second = config(**first), config(**second)
        same, same_digest = compared(first, second)
        expect(same == is_same == same_digest, f"pod templates same: {same}, digests: {same_digest}\n{first}\n{second}")
    # The probe is in the pod anyway. The admin listener is not.
    other = config().replace("admin.sock", "other.sock")
    expect(compared(config(), other) == (False, False), "the address of the admin listener")
    limits = config(limit=10), config(limit=20)
    expect(not compared(*limits, rollout="always")[0], "rollout: always")
    stores = config(), config(more="store: { memory: { max_keys: 5 } }\n")
    expect(compared(*stores, rollout="never")[0], "rollout: never")


def the_manifests_are_those_of_the_chart(chart, program, directory):
    secret = {"redis": {"existingSecret": "tollgate-redis"}}
    for variant in VARIANTS:
        found = kustomized(variant)
        for version in [it for it in VERSIONS if int(it[2:]) >= 30]:
            valid(found, version, variant)
        program.check_all(found, variant)
        text = found["ConfigMap/tollgate"]["data"]["gateway.yaml"]
        values = {"config": text} | (secret if variant == "gateway-redis" else {})
        values |= {"mode": "ratelimit"} if variant == "ratelimit" else {}
        others, _ = chart.render(values)
        for name, it in copy.deepcopy(others).items():
            if it["kind"] == "Deployment":
                it["spec"]["template"]["metadata"].pop("annotations")
            expect(name in found, f"{variant}: there is no {name}")
            for part in ["spec", "data", "automountServiceAccountToken"]:
                mine, chart_has = sorted_lists(found[name].get(part)), sorted_lists(it.get(part))
                expect(mine == chart_has, f"{variant}: {name} differs from the chart: {part}\n{mine}\n{chart_has}")
        expect(found.keys() == others.keys(), f"{variant}: {found.keys() ^ others.keys()}")
    default = yaml.safe_load((CHART / "values.yaml").read_text())["config"]
    expect(default == (MANIFESTS / "gateway/gateway.yaml").read_text(), "values.yaml: config is not gateway/gateway.yaml")
    alerts = (PROJECT / "docker/prometheus/alerts.yml").read_text()
    expect((CHART / "files/alerts.yml").read_text() == alerts, "files/alerts.yml is not docker/prometheus/alerts.yml")
    rules, _ = chart.render({"prometheusRule": {"enabled": True}})
    expect(rules["PrometheusRule/tollgate"]["spec"] == yaml.safe_load(alerts), "PrometheusRule has other alerts")


def sorted_lists(value):
    """Lists of named objects by their names: the order of volumes has no meaning."""
    if isinstance(value, dict):
        return {key: sorted_lists(it) for key, it in value.items()}
    if isinstance(value, list) and all(isinstance(it, dict) and "name" in it for it in value):
        return sorted((sorted_lists(it) for it in value), key=lambda it: it["name"])
    return value


def kustomized(variant):
    kubectl = pathlib.Path(sys.prefix) / "bin/kubectl"
    done = subprocess.run([kubectl, "kustomize", MANIFESTS / variant], capture_output=True, text=True)
    expect(done.returncode == 0 and not done.stderr, f"{variant}: {done.stderr}")
    return objects(done.stdout)


def envoy_gateway_gets_the_image(chart, program, directory):
    found = kustomized("eg-image")
    valid(found, VERSIONS[-1], "eg-image")
    text = found["ConfigMap/envoy-gateway-config"]["data"]["envoy-gateway.yaml"]
    container = yaml.safe_load(text)["provider"]["kubernetes"]["rateLimitDeployment"]["container"]
    default, _ = chart.render()
    expect(container["image"] == at(default, "Deployment/tollgate spec template spec containers 0 image"), "another image")


def checkov_finds_nothing(chart, program, directory):
    hardened = {"image": {"digest": "sha256:" + "0" * 64, "pullPolicy": "Always"}, "networkPolicy": {"enabled": True}}
    xds = {"mode": "ratelimit", "ratelimit": {"source": "xds", "xds": {"tlsSecret": "certs"}}, "redis": {"existingSecret": "r"}}
    for name, values, skipped in [("gateway", hardened, SKIPPED), ("xds", merged(hardened, xds), SKIPPED | SKIPPED_AT_XDS)]:
        files = directory / f"checkov-{name}"
        files.mkdir()
        found, _ = chart.render(values)
        (files / "all.yaml").write_text(yaml.safe_dump_all(found.values()))
        checkov = [sys.executable, "-m", "checkov.main", "--framework", "kubernetes", "--quiet", "--compact"]
        checkov += ["--skip-download", "--output", "json", "--skip-check", ",".join(skipped), "-d", files]
        done = subprocess.run(checkov, capture_output=True, text=True)
        report = json.loads(done.stdout)
        failed = [f"{it['check_id']} {it['check_name']}: {it['resource']}" for it in report["results"]["failed_checks"]]
        expect(not failed and report["summary"]["passed"] > 50, f"checkov, {name}: {failed or report['summary']}")


def the_notes_warn(chart, program, directory):
    warning = "each pod counts alone"
    expect(warning in chart.render()[1], "two pods without Redis: no warning")
    expect(warning not in chart.render({"replicas": 1})[1], "one pod: a warning")
    with_redis = {"config": config(more=REDIS), "redis": {"existingSecret": "redis"}}
    expect(warning not in chart.render(with_redis)[1], "with Redis: a warning")
    expect("rollout restart" in chart.render({"existingConfigMap": "mine"})[1], "existingConfigMap: no remedy")


def examples_of_the_page_are_accepted(chart, program, directory):
    text = (PROJECT / "docs/kubernetes.md").read_text()
    blocks = [it.split("```")[0] for it in text.split("```yaml\n")[1:]]
    values = [it for it in blocks if it.startswith("# values.yaml")]
    expect(len(values) > 3, f"only {len(values)} examples")
    for it in values:
        found, _ = chart.render(yaml.safe_load(it))
        valid(found, VERSIONS[-1], it)
        program.check_all(found, it)


def the_default_configuration_limits(chart, program, directory):
    """The process of the pod, with other ports: probes, the limit, and the signal to stop."""
    found, _ = chart.render()
    container = at(found, "Deployment/tollgate spec template spec containers 0")
    named = {it["name"]: it["containerPort"] for it in container["ports"]}
    gateway, metrics = ports.reserve(2)
    text = found["ConfigMap/tollgate"]["data"]["gateway.yaml"]
    text = text.replace(f"0.0.0.0:{named['http']}", f"127.0.0.1:{gateway}")
    text = text.replace(f"0.0.0.0:{named['metrics']}", f"127.0.0.1:{metrics}")
    text = text.replace("/run/tollgate/admin.sock", str(directory / "admin.sock"))
    file = directory / "gateway.yaml"
    file.write_text(text)
    arguments = [file if it == "/etc/tollgate/gateway.yaml" else it for it in container["args"]]
    with open(directory / "log", "wb") as log, subprocess.Popen([program.path, *arguments], stdout=log, stderr=log) as process:
        try:
            for probe in ["startupProbe", "livenessProbe", "readinessProbe"]:
                path = container[probe]["httpGet"]["path"]
                expect(eventually(metrics, path) == 200, f"{probe}: {path}: {(directory / 'log').read_text()}")
            expect(status(metrics, "/metrics") == 200, "no metrics")
            statuses = [status(gateway, "/") for _ in range(21)]
            # A minute may begin meanwhile.
            expect(statuses[0] == 200 and 429 in statuses, f"{statuses}")
            process.send_signal(signal.SIGTERM)
            expect(process.wait(timeout=30) == 0, f"it ends with {process.returncode}")
        finally:
            process.kill()


def status(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def eventually(port, path):
    """The status, as soon as the port answers."""
    for _ in range(300):
        with contextlib.suppress(OSError):
            return status(port, path)
        time.sleep(0.1)
    return None


TESTS = [
    the_chart_is_well_formed,
    each_switch_does_what_it_says,
    all_switches_work_together,
    misspelt_and_wrong_values_are_refused,
    pods_start_anew_for_what_needs_it,
    the_manifests_are_those_of_the_chart,
    envoy_gateway_gets_the_image,
    the_notes_warn,
    examples_of_the_page_are_accepted,
    the_default_configuration_limits,
    checkov_finds_nothing,
]


def main():
    program, directory = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    chart, failed = Chart(CHART), 0
    for test in TESTS:
        name = test.__name__.replace("_", " ")
        try:
            test(chart, Program(program, directory), directory)
            print(f"{name}: good", flush=True)
        except Failure as failure:
            failed += 1
            print(f"{name}: FAILED\n{failure}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
