{{/*
Name of the objects. At most 52 bytes: a StatefulSet with a longer name makes no pods, because its pods get a label with
the name and a hash. The headless service also adds a suffix.
*/}}
{{- define "bellwether.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- .Values.fullnameOverride | default $full | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* The labels that select the pods. They can never change, because selectors are immutable. */}}
{{- define "bellwether.selectorLabels" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* Labels of pods, without the version of the chart: a new chart with the same image restarts no pod. */}}
{{- define "bellwether.podLabels" -}}
{{ include "bellwether.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "bellwether.labels" -}}
{{ include "bellwether.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "bellwether.metadata" -}}
namespace: {{ .Release.Namespace | quote }}
labels:
  {{- include "bellwether.labels" . | nindent 2 }}
{{- end }}

{{/* registry/repository:tag, or registry/repository@digest: a digest takes precedence. */}}
{{- define "bellwether.image" -}}
{{- $image := .Values.image }}
{{- with $image.registry }}{{ . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* "true" if the embedded store is on a volume claim; empty if not. */}}
{{- define "bellwether.persistent" -}}
{{- $wanted := .Values.persistence.enabled }}
{{- if ternary (not .Values.redis.enabled) $wanted (kindIs "invalid" $wanted) }}true{{ end }}
{{- end }}
