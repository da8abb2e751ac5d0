{{/*
What in gateway.yaml starts new pods, as a digest for the pod template. files/needs-restart.json has the
list of the program (tollgate check --json), and scripts/test-chart compares both.
*/}}
{{- define "tollgate.restartDigest" -}}
{{- $list := .Files.Get "files/needs-restart.json" | fromJson -}}
{{- $config := include "tollgate.parsed" . | fromJson -}}
{{- range $list.except -}}
{{- $names := splitList "." . -}}
{{- $parent := $config -}}
{{- range initial $names -}}
{{- if kindIs "map" $parent }}{{ $parent = get $parent . }}{{ else }}{{ $parent = "" }}{{ end -}}
{{- end -}}
{{- if kindIs "map" $parent -}}
{{- $_ := unset $parent (last $names) -}}
{{- end -}}
{{- end -}}
{{- $picked := dict -}}
{{- range $path := $list.settings -}}
{{- $value := $config -}}
{{- range splitList "." $path -}}
{{- if kindIs "map" $value }}{{ $value = get $value . }}{{ else }}{{ $value = "" }}{{ end -}}
{{- end -}}
{{- $_ := set $picked $path $value -}}
{{- end -}}
{{- $picked | toJson | sha256sum | trunc 32 -}}
{{- end -}}

{{/* The annotation of the pod template, or nothing. */}}
{{- define "tollgate.rollout" -}}
{{- if and (include "tollgate.hasConfig" .) (eq .Values.rollout "restart-only") -}}
checksum/needs-restart: {{ include "tollgate.restartDigest" . }}
{{- else if and (include "tollgate.hasConfig" .) (eq .Values.rollout "always") -}}
checksum/config: {{ list .Values.config .Values.files | toJson | sha256sum | trunc 32 }}
{{- end -}}
{{- end -}}
