{{/* The name of the objects. */}}
{{- define "tollgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "tollgate.fullname" -}}
{{- $name := include "tollgate.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tollgate.selector" -}}
app.kubernetes.io/name: {{ include "tollgate.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "tollgate.labels" -}}
{{ include "tollgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: {{ .Values.mode }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "tollgate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tollgate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tollgate.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{/* "yes" if Envoy Gateway sends the limits. */}}
{{- define "tollgate.isXds" -}}
{{- if and (eq .Values.mode "ratelimit") (eq .Values.ratelimit.source "xds") }}yes{{ end -}}
{{- end -}}

{{/* "yes" if the chart has gateway.yaml, so that it can read it. */}}
{{- define "tollgate.hasConfig" -}}
{{- if not (or (include "tollgate.isXds" .) .Values.existingConfigMap) }}yes{{ end -}}
{{- end -}}

{{/* gateway.yaml as JSON, for templates that look into it. */}}
{{- define "tollgate.parsed" -}}
{{- if include "tollgate.hasConfig" . -}}
{{- .Values.config | fromYaml | toJson -}}
{{- else -}}
{}
{{- end -}}
{{- end -}}

{{- define "tollgate.configMap" -}}
{{- default (include "tollgate.fullname" .) .Values.existingConfigMap -}}
{{- end -}}

{{/* The text at a path of gateway.yaml, or nothing: (list $config "admin.probe.address"). */}}
{{- define "tollgate.at" -}}
{{- $value := index . 0 -}}
{{- range splitList "." (index . 1) -}}
{{- if kindIs "map" $value }}{{ $value = get $value . }}{{ else }}{{ $value = "" }}{{ end -}}
{{- end -}}
{{- if not (or (kindIs "map" $value) (kindIs "slice" $value)) }}{{ $value }}{{ end -}}
{{- end -}}

{{/* The port at the end of an address, or nothing. */}}
{{- define "tollgate.portOf" -}}
{{- regexFind ":[0-9]+$" . | trimPrefix ":" -}}
{{- end -}}

{{/* The port of probes and metrics. */}}
{{- define "tollgate.probePort" -}}
{{- $config := include "tollgate.parsed" . | fromJson -}}
{{- if .Values.probePort -}}
{{- .Values.probePort -}}
{{- else -}}
{{- include "tollgate.portOf" (include "tollgate.at" (list $config "admin.probe.address")) | default "9910" -}}
{{- end -}}
{{- end -}}

{{- define "tollgate.metricsPort" -}}
{{- if include "tollgate.isXds" . }}19001{{ else }}{{ include "tollgate.probePort" . }}{{ end -}}
{{- end -}}

{{/* The ports of the Service, as JSON: { "ports": [...] }. */}}
{{- define "tollgate.ports" -}}
{{- $usual := list (dict "name" "http" "port" 80 "targetPort" 8080) -}}
{{- if eq .Values.mode "ratelimit" -}}
{{- $usual = list (dict "name" "grpc" "port" 8081 "targetPort" 8081) -}}
{{- end -}}
{{- dict "ports" (default $usual .Values.service.ports) | toJson -}}
{{- end -}}

{{- define "tollgate.serviceType" -}}
{{- default (ternary "LoadBalancer" "ClusterIP" (eq .Values.mode "gateway")) .Values.service.type -}}
{{- end -}}

{{/* The seconds of a period such as 1m30s, rounded up, or nothing if it is none. */}}
{{- define "tollgate.seconds" -}}
{{- $rest := . | replace " " "" -}}
{{- if regexMatch "^([0-9]+(ms|s|m|h))+$" $rest -}}
{{- $ms := 0 -}}
{{- $factors := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- range regexFindAll "[0-9]+(ms|s|m|h)" $rest -1 -}}
{{- $number := regexFind "^[0-9]+" . -}}
{{- $ms = add $ms (mul (int $number) (get $factors (trimPrefix $number .))) -}}
{{- end -}}
{{- div (add $ms 999) 1000 -}}
{{- end -}}
{{- end -}}

{{/* How long requests in progress may take, in seconds. */}}
{{- define "tollgate.drain" -}}
{{- $config := include "tollgate.parsed" . | fromJson -}}
{{- if kindIs "invalid" .Values.drainSeconds -}}
{{- include "tollgate.seconds" (include "tollgate.at" (list $config "runtime.drain") | default "30s") | default "30" -}}
{{- else -}}
{{- .Values.drainSeconds -}}
{{- end -}}
{{- end -}}

{{/* Kubernetes before 1.30 does not know preStop.sleep. */}}
{{- define "tollgate.preStop" -}}
{{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}{{ .Values.preStopSeconds }}{{ else }}0{{ end -}}
{{- end -}}
