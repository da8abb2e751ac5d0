"""The switches of the chart, each with what it must change in the objects.

A case has the values, and paths into the objects with the values that they must have there. A path is
KIND/NAME of an object and then keys and indexes; ABSENT says that nothing is there.
"""

import pathlib
import re

CHART = pathlib.Path(__file__).resolve().parents[2] / "packaging/chart/Chart.yaml"
VERSION = re.search(r'^appVersion: "?(.*?)"?$', CHART.read_text(), flags=re.M)[1]
ABSENT = object()
POD = "Deployment/tollgate spec template spec"
CONTAINER = f"{POD} containers 0"
HPA = "HorizontalPodAutoscaler/tollgate spec"
POLICY = "NetworkPolicy/tollgate spec"
SERVICE = "Service/tollgate spec"

# A configuration for the ports that it has. `more` is added to it.
CONFIG = """listeners:
  - address: 0.0.0.0:{port}
routes:
  - {{ path: /*, policies: [per-client], respond: {{ status: 204 }} }}
policies:
  per-client: {{ key: ip, limit: {limit}/minute }}
admin:
  address: unix:/run/tollgate/admin.sock
  probe: {{ address: 0.0.0.0:{probe}, metrics: true }}
{more}"""


def config(port=8080, limit=10, probe=9910, more=""):
    return CONFIG.format(port=port, limit=limit, probe=probe, more=more)


REDIS = 'store: { redis: { url: "${file:/run/secrets/redis/url}" } }\n'
DOMAINS = """policies:
  per-client: { key: ip, limit: 10/minute }
check:
  grpc:
    address: 0.0.0.0:8081
    trust: [10.0.0.0/8]
    domains:
      edge: [{ match: [remote_address], policy: per-client, key: { ip: remote_address } }]
admin:
  address: unix:/run/tollgate/admin.sock
  probe: { address: 0.0.0.0:9910, metrics: true }
"""
PEER = {"namespaceSelector": {"matchLabels": {"name": "web"}}}
DNS = {"ports": [{"port": 53, "protocol": "UDP"}]}
VOLUME = {"name": "keys", "secret": {"secretName": "keys"}}
MOUNT = {"name": "keys", "mountPath": "/etc/keys", "readOnly": True}
SPREAD = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
DIGEST = "sha256:" + "0" * 64


def xds(**settings):
    return {"mode": "ratelimit", "ratelimit": {"source": "xds", "xds": settings}}


# The values of a case, and what they must make.
CASES = [
    ({"mode": "ratelimit", "config": DOMAINS}, {
        f"{SERVICE} type": "ClusterIP", f"{SERVICE} externalTrafficPolicy": ABSENT,
        f"{SERVICE} ports 0 port": 8081, f"{SERVICE} ports 0 appProtocol": "kubernetes.io/h2c",
        f"{CONTAINER} args 0": "run"}),
    ({"image": {"repository": "registry.example/tollgate"}}, {
        f"{CONTAINER} image": f"registry.example/tollgate:{VERSION}"}),
    ({"image": {"tag": "next"}}, {f"{CONTAINER} image": "tollgate:next"}),
    ({"image": {"digest": DIGEST}}, {f"{CONTAINER} image": f"tollgate@{DIGEST}"}),
    ({"image": {"pullPolicy": "Always"}}, {f"{CONTAINER} imagePullPolicy": "Always"}),
    ({"imagePullSecrets": ["pull"]}, {f"{POD} imagePullSecrets 0 name": "pull"}),
    ({"replicas": 5}, {"Deployment/tollgate spec replicas": 5}),
    ({"config": config(limit=7)}, {"ConfigMap/tollgate data gateway.yaml": config(limit=7)}),
    ({"existingConfigMap": "mine"}, {f"{POD} volumes 0 configMap name": "mine", "ConfigMap/tollgate": ABSENT}),
    # Texts that only the given indentation keeps, and names that YAML takes for something else than texts.
    ({"files": {"notes": "\n    indented\n  less\n\nnot\n"}}, {
        "ConfigMap/tollgate data notes": "\n    indented\n  less\n\nnot\n"}),
    ({"fullnameOverride": "123"}, {"ConfigMap/123 metadata name": "123", "Deployment/123 metadata name": "123"}),
    ({"existingConfigMap": "null"}, {f"{POD} volumes 0 configMap name": "null"}),
    ({"redis": {"existingSecret": "123"}, "config": config(more=REDIS)}, {f"{POD} volumes 1 secret secretName": "123"}),
    ({"imagePullSecrets": ["1e3"]}, {f"{POD} imagePullSecrets 0 name": "1e3"}),
    ({"files": {"keys.yaml": "keys: []\n"}}, {"ConfigMap/tollgate data keys.yaml": "keys: []\n"}),
    ({"rollout": "never"}, {"Deployment/tollgate spec template metadata annotations": ABSENT}),
    ({"redis": {"existingSecret": "redis", "key": "address"}, "config": config(more=REDIS.replace("/url", "/address"))}, {
        f"{POD} volumes 1 secret secretName": "redis", f"{CONTAINER} volumeMounts 1 mountPath": "/run/secrets/redis"}),
    (xds(server="eg:18001", nodeId="me", quota=True, logLevel="warn"), {
        f"{CONTAINER} args": ["ratelimit"], "ConfigMap/tollgate": ABSENT,
        f"{CONTAINER} env CONFIG_TYPE": "GRPC_XDS_SOTW",
        f"{CONTAINER} env CONFIG_GRPC_XDS_SERVER_URL": "eg:18001", f"{CONTAINER} env CONFIG_GRPC_XDS_NODE_ID": "me",
        f"{CONTAINER} env CONFIG_GRPC_XDS_SERVER_USE_TLS": "false", f"{CONTAINER} env QUOTA_MODE": "true",
        f"{CONTAINER} env LOG_LEVEL": "warn", f"{CONTAINER} readinessProbe httpGet path": "/healthcheck"}),
    (xds(tlsSecret="certs") | {"redis": {"existingSecret": "redis"}}, {
        f"{CONTAINER} env GRPC_SERVER_USE_TLS": "true", f"{CONTAINER} volumeMounts 0 mountPath": "/certs",
        f"{POD} volumes 0 secret secretName": "certs",
        f"{CONTAINER} env REDIS_URL secretKeyRef": {"name": "redis", "key": "url"}}),
    ({"env": [{"name": "A", "value": "b"}]}, {f"{CONTAINER} env A": "b"}),
    ({"envFrom": [{"secretRef": {"name": "tokens"}}]}, {f"{CONTAINER} envFrom 0 secretRef name": "tokens"}),
    ({"extraVolumes": [VOLUME], "extraVolumeMounts": [MOUNT]}, {
        f"{POD} volumes 2 name": "keys", f"{CONTAINER} volumeMounts 2 mountPath": "/etc/keys"}),
    ({"service": {"type": "NodePort", "ports": [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080}]}}, {
        f"{SERVICE} type": "NodePort", f"{SERVICE} ports 0 nodePort": 30080}),
    ({"service": {"externalTrafficPolicy": "Cluster"}}, {f"{SERVICE} externalTrafficPolicy": "Cluster"}),
    ({"service": {"annotations": {"a": "b"}}}, {"Service/tollgate metadata annotations a": "b"}),
    ({"service": {"loadBalancerClass": "example/lb"}}, {f"{SERVICE} loadBalancerClass": "example/lb"}),
    ({"service": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}}, {f"{SERVICE} loadBalancerSourceRanges 0": "10.0.0.0/8"}),
    ({"preStopSeconds": 7}, {f"{POD} terminationGracePeriodSeconds": 42, f"{CONTAINER} lifecycle preStop sleep seconds": 7}),
    ({"preStopSeconds": 0}, {f"{POD} terminationGracePeriodSeconds": 35, f"{CONTAINER} lifecycle": ABSENT}),
    ({"drainSeconds": 60}, {f"{POD} terminationGracePeriodSeconds": 70}),
    ({"config": config(more="runtime: { drain: 1m30s500ms }\n")}, {f"{POD} terminationGracePeriodSeconds": 101}),
    ({"probePort": 9000, "existingConfigMap": "mine"}, {f"{CONTAINER} ports 1 containerPort": 9000}),
    ({"config": config(probe=9001)}, {f"{CONTAINER} ports 1 containerPort": 9001}),
    ({"podDisruptionBudget": {"enabled": False}}, {"PodDisruptionBudget/tollgate": ABSENT}),
    ({"podDisruptionBudget": {"maxUnavailable": "20%"}}, {"PodDisruptionBudget/tollgate spec maxUnavailable": "20%"}),
    ({"autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 9, "cpu": 60}}, {
        "Deployment/tollgate spec replicas": ABSENT, f"{HPA} minReplicas": 3, f"{HPA} maxReplicas": 9,
        f"{HPA} metrics 0 resource target averageUtilization": 60, f"{HPA} metrics 1": ABSENT}),
    ({"autoscaling": {"enabled": True, "cpu": 0, "requestsPerSecond": 500, "metric": "requests"}}, {
        f"{HPA} metrics 0 pods metric name": "requests", f"{HPA} metrics 0 pods target averageValue": "500"}),
    ({"networkPolicy": {"enabled": True}}, {
        f"{POLICY} policyTypes": ["Ingress"], f"{POLICY} ingress 0 ports 0 port": 8080, f"{POLICY} ingress 0 from": ABSENT,
        f"{POLICY} ingress 1 ports 0 port": 9910}),
    ({"networkPolicy": {"enabled": True, "from": [PEER], "metricsFrom": [PEER], "egress": [DNS]}}, {
        f"{POLICY} policyTypes": ["Ingress", "Egress"], f"{POLICY} ingress 0 from 0": PEER,
        f"{POLICY} ingress 1 from 0": PEER, f"{POLICY} egress 0": DNS}),
    ({"serviceMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "p"}}}, {
        "ServiceMonitor/tollgate metadata labels release": "p", "ServiceMonitor/tollgate spec endpoints 0 interval": "15s",
        "Service/tollgate-metrics spec ports 0 port": 9910}),
    ({"podMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "p"}}}, {
        "PodMonitor/tollgate metadata labels release": "p",
        "PodMonitor/tollgate spec podMetricsEndpoints 0 interval": "15s"}),
    ({"prometheusRule": {"enabled": True, "labels": {"release": "p"}}}, {
        "PrometheusRule/tollgate metadata labels release": "p",
        "PrometheusRule/tollgate spec groups 0 name": "tollgate-shares"}),
    ({"serviceAccount": {"create": False, "name": "other"}}, {f"{POD} serviceAccountName": "other", "ServiceAccount/tollgate": ABSENT}),
    ({"serviceAccount": {"annotations": {"a": "b"}}}, {"ServiceAccount/tollgate metadata annotations a": "b"}),
    ({"resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "1Gi"}}}, {
        f"{CONTAINER} resources requests cpu": 1, f"{CONTAINER} resources limits memory": "1Gi"}),
    ({"spread": "DoNotSchedule"}, {f"{POD} topologySpreadConstraints 0 whenUnsatisfiable": "DoNotSchedule"}),
    ({"nodeSelector": {"disk": "ssd"}}, {f"{POD} nodeSelector disk": "ssd"}),
    ({"tolerations": [{"key": "edge", "operator": "Exists"}]}, {f"{POD} tolerations 0 key": "edge"}),
    ({"affinity": SPREAD}, {f"{POD} affinity": SPREAD}),
    ({"priorityClassName": "high"}, {f"{POD} priorityClassName": "high"}),
    ({"podAnnotations": {"a": "b"}}, {"Deployment/tollgate spec template metadata annotations a": "b"}),
    ({"podLabels": {"a": "b"}}, {"Deployment/tollgate spec template metadata labels a": "b"}),
    ({"nameOverride": "gate"}, {"Deployment/tollgate metadata labels app.kubernetes.io/name": "gate"}),
    ({"fullnameOverride": "edge"}, {"Deployment/edge spec replicas": 2}),
]

# Values that the chart refuses, and a part of the message.
REFUSED = [
    ({"config": "listeners: ["}, "config is not a YAML map"),
    ({"config": "text"}, "config is not a YAML map"),
    ({"config": config().split("admin:")[0]}, "config has no admin.probe"),
    ({"config": config().replace("0.0.0.0:9910", "127.0.0.1:9910")}, "cannot be reached by the kubelet"),
    ({"config": config().replace(", metrics: true", ""), "podMonitor": {"enabled": True}}, "need admin.probe: { metrics"),
    ({"redis": {"existingSecret": "redis"}}, "redis.existingSecret has no effect"),
    ({"mode": "ratelimit"}, "mode: ratelimit needs check"),
    ({"config": config(more="runtime: { drain: 2d }\n")}, "set drainSeconds"),
    ({"config": config(port=9000)}, "no listener of config has port 8080"),
    ({"existingConfigMap": "mine", "files": {"a": "b"}}, "put them into mine"),
    ({"autoscaling": {"enabled": True, "cpu": 0}}, "there is nothing to scale by"),
    ({"autoscaling": {"enabled": True}, "resources": {"requests": {"cpu": None}}}, "resources.requests.cpu"),
    ({"autoscaling": {"enabled": True, "minReplicas": 11}}, "minReplicas is above"),
    ({"config": {"listeners": []}}, "config"),
    ({"replicas": "two"}, "replicas"),
    ({"mode": "gatewy"}, "mode"),
    ({"service": {"ports": [{"name": "http", "port": 80}]}}, "targetPort"),
]
