{{/*
Name of the objects. At most 52 bytes: a StatefulSet of a longer name makes no pods, because its pods get a label of
the name and a hash; the headless service adds a word too.
*/}}
{{- define "bellwether.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- .Values.fullnameOverride | default $full | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* What finds the pods. It can never change, because selectors cannot. */}}
{{- define "bellwether.selectorLabels" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* Without the version of the chart, so that a new chart with the same image restarts nothing. */}}
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

{{/* registry/repository:tag, or registry/repository@digest: a digest wins. */}}
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
