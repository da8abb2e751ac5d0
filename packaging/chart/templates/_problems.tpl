{{/* What the schema of the values cannot say. All mistakes are reported at once. */}}
{{- define "tollgate.check" -}}
{{- $problems := include "tollgate.problems" . | trim -}}
{{- if $problems -}}
{{- fail (printf "\n%s" $problems) -}}
{{- end -}}
{{- end -}}

{{- define "tollgate.problems" -}}
{{- $config := include "tollgate.parsed" . | fromJson -}}
{{- if include "tollgate.hasConfig" . -}}
{{- if or (hasKey $config "Error") (not $config) }}
config is not a YAML map: run tollgate check on it
{{- else }}
{{- include "tollgate.problemsOfConfig" (list . $config) -}}
{{- end }}
{{- end }}
{{- if and .Values.existingConfigMap .Values.files }}
files: they are written to the ConfigMap of the chart: put them into {{ .Values.existingConfigMap }}
{{- end }}
{{- with .Values.autoscaling }}
{{- if and .enabled (not (or .cpu .requestsPerSecond)) }}
autoscaling: there is nothing to scale by: set cpu or requestsPerSecond
{{- end }}
{{- if and .enabled .cpu (not (($.Values.resources.requests).cpu)) }}
autoscaling.cpu is a percentage of resources.requests.cpu: set that
{{- end }}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
autoscaling: minReplicas is above maxReplicas
{{- end }}
{{- end }}
{{- end -}}

{{/* (list $ $config): what in gateway.yaml does not fit the other values. */}}
{{- define "tollgate.problemsOfConfig" -}}
{{- $root := index . 0 -}}
{{- $config := index . 1 -}}
{{- $probe := include "tollgate.at" (list $config "admin.probe.address") -}}
{{- if and (not $probe) (not $root.Values.probePort) }}
config has no admin.probe: the probes of the pod need it: add admin: { address: "unix:/run/tollgate/admin.sock", probe: { address: "0.0.0.0:9910", metrics: true } }
{{- end }}
{{- if regexMatch "^(127\\.|localhost:|\\[::1\\]|unix:)" $probe }}
admin.probe of config cannot be reached by the kubelet: listen on 0.0.0.0
{{- end }}
{{- $watched := or $root.Values.serviceMonitor.enabled $root.Values.podMonitor.enabled -}}
{{- if and $watched (ne (include "tollgate.at" (list $config "admin.probe.metrics")) "true") }}
serviceMonitor and podMonitor need admin.probe: { metrics: true } in config
{{- end }}
{{- if and $root.Values.redis.existingSecret (not (contains "/run/secrets/redis/" $root.Values.config)) }}
redis.existingSecret has no effect: write store: { redis: { url: "${file:/run/secrets/redis/{{ $root.Values.redis.key }}}" } } into config
{{- end }}
{{- if and (eq $root.Values.mode "ratelimit") (not (include "tollgate.at" (list $config "check.grpc.address"))) }}
mode: ratelimit needs check: { grpc: { address: "0.0.0.0:8081", domains: ... } } in config, or ratelimit.source: xds
{{- end }}
{{- $drain := include "tollgate.at" (list $config "runtime.drain") -}}
{{- if and $drain (kindIs "invalid" $root.Values.drainSeconds) (not (include "tollgate.seconds" $drain)) }}
runtime.drain of config cannot be read by the chart: set drainSeconds
{{- end }}
{{- include "tollgate.problemsOfPorts" . -}}
{{- end -}}

{{/* Each port of the Service leads to a listener of gateway.yaml. Addresses with ${...} are unknown. */}}
{{- define "tollgate.problemsOfPorts" -}}
{{- $root := index . 0 -}}
{{- $config := index . 1 -}}
{{- $addresses := list (include "tollgate.at" (list $config "check.grpc.address")) (include "tollgate.at" (list $config "check.http.address")) -}}
{{- range $listener := (get $config "listeners" | default list) -}}
{{- $addresses = append $addresses (include "tollgate.at" (list $listener "address")) -}}
{{- end -}}
{{- $ports := list -}}
{{- range $addresses -}}
{{- $ports = append $ports (include "tollgate.portOf" .) -}}
{{- end -}}
{{- if not (contains "${" (join " " $addresses)) -}}
{{- range (include "tollgate.ports" $root | fromJson).ports -}}
{{- if not (has (toString .targetPort) $ports) }}
service.ports: no listener of config has port {{ .targetPort }}: set service.ports to the ports of the listeners ({{ without $ports "" | join ", " }})
{{- end }}
{{- end -}}
{{- end -}}
{{- end -}}
