{{/* The environment: that of Envoy Gateway for xds, and what the values add. */}}
{{- define "tollgate.env" -}}
{{- if or (include "tollgate.isXds" .) .Values.env -}}
env:
  {{- if include "tollgate.isXds" . }}
  {{- include "tollgate.envOfXds" . | nindent 2 }}
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
{{- end -}}

{{- define "tollgate.envOfXds" -}}
{{- $xds := .Values.ratelimit.xds -}}
{{- $tls := ternary "true" "false" (not (empty $xds.tlsSecret)) -}}
- { name: CONFIG_TYPE, value: GRPC_XDS_SOTW }
- { name: CONFIG_GRPC_XDS_SERVER_URL, value: {{ $xds.server | quote }} }
- { name: CONFIG_GRPC_XDS_NODE_ID, value: {{ $xds.nodeId | quote }} }
- { name: CONFIG_GRPC_XDS_SERVER_USE_TLS, value: {{ $tls | quote }} }
- { name: GRPC_SERVER_USE_TLS, value: {{ $tls | quote }} }
{{- if $xds.tlsSecret }}
- { name: CONFIG_GRPC_XDS_CLIENT_TLS_CERT, value: /certs/tls.crt }
- { name: CONFIG_GRPC_XDS_CLIENT_TLS_KEY, value: /certs/tls.key }
- { name: CONFIG_GRPC_XDS_SERVER_TLS_CACERT, value: /certs/ca.crt }
- { name: GRPC_SERVER_TLS_CERT, value: /certs/tls.crt }
- { name: GRPC_SERVER_TLS_KEY, value: /certs/tls.key }
{{- end }}
- { name: FORCE_START_WITHOUT_INITIAL_CONFIG, value: "true" }
- { name: QUOTA_MODE, value: {{ $xds.quota | quote }} }
- { name: USE_PROMETHEUS, value: "true" }
- { name: PROMETHEUS_ADDR, value: ":19001" }
- { name: LOG_LEVEL, value: {{ $xds.logLevel | quote }} }
- { name: LOG_FORMAT, value: json }
{{- if .Values.redis.existingSecret }}
- { name: REDIS_SOCKET_TYPE, value: tcp }
- name: REDIS_URL
  valueFrom: { secretKeyRef: { name: {{ .Values.redis.existingSecret | quote }}, key: {{ .Values.redis.key | quote }} } }
{{- end }}
{{- end -}}

{{- define "tollgate.probes" -}}
{{- $live := "/healthz" -}}
{{- $ready := "/readyz" -}}
{{- $port := "metrics" -}}
{{- if include "tollgate.isXds" . -}}
{{- $live = "/healthcheck" -}}
{{- $ready = "/healthcheck" -}}
{{- $port = "health" -}}
{{- end -}}
startupProbe:
  httpGet: { path: {{ $live }}, port: {{ $port }} }
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: { path: {{ $live }}, port: {{ $port }} }
  periodSeconds: 10
  timeoutSeconds: 3
readinessProbe:
  httpGet: { path: {{ $ready }}, port: {{ $port }} }
  periodSeconds: 5
  timeoutSeconds: 3
{{- end -}}

{{- define "tollgate.mounts" -}}
{{- if include "tollgate.isXds" . -}}
{{- with .Values.ratelimit.xds.tlsSecret -}}
- { name: certs, mountPath: /certs, readOnly: true }
{{ end -}}
{{- else -}}
# A directory: a file that is mounted by itself does not change.
- { name: config, mountPath: /etc/tollgate, readOnly: true }
{{ with .Values.redis.existingSecret -}}
- { name: redis, mountPath: /run/secrets/redis, readOnly: true }
{{ end -}}
{{- end -}}
- { name: run, mountPath: /run/tollgate }
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tollgate.volumes" -}}
{{- if include "tollgate.isXds" . -}}
{{- with .Values.ratelimit.xds.tlsSecret -}}
- name: certs
  secret: { secretName: {{ . | quote }}, defaultMode: 0440 }
{{ end -}}
{{- else -}}
- name: config
  configMap: { name: {{ include "tollgate.configMap" . | quote }} }
{{ with .Values.redis.existingSecret -}}
- name: redis
  secret: { secretName: {{ . | quote }}, defaultMode: 0440 }
{{ end -}}
{{- end -}}
# The socket of the admin listener.
- name: run
  emptyDir: { medium: Memory, sizeLimit: 1Mi }
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
