{{/*
Name of the objects. At most 52 bytes: a StatefulSet with a longer name makes no pods, because its pods get a label with
the name and a hash. The headless service also adds a suffix.
*/}}
{{- define "bellwether.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- .Values.fullnameOverride | default $full | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "bellwether.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- define "bellwether.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The labels that select the pods. They can never change, because selectors are immutable. */}}
{{- define "bellwether.selectorLabels" -}}
app.kubernetes.io/name: {{ include "bellwether.name" . | quote }}
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
{{ include "bellwether.chartLabels" . }}
{{- end }}

{{- define "bellwether.chartLabels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Namespace, labels and annotations of an object: (list $ annotations namespace labels), all but $ optional. */}}
{{- define "bellwether.metadataWith" -}}
{{- $ := index . 0 }}
{{- $annotations := merge dict (index . 1 | default dict) $.Values.commonAnnotations }}
{{- $labels := dict }}
{{- if gt (len .) 3 }}{{ $labels = index . 3 | default dict }}{{ end }}
{{- $namespace := include "bellwether.namespace" $ }}
{{- if gt (len .) 2 }}{{ $namespace = index . 2 | default $namespace }}{{ end -}}
namespace: {{ $namespace | quote }}
labels:
  {{- include "bellwether.labels" $ | nindent 2 }}
  {{- with $labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "bellwether.metadata" -}}
{{- include "bellwether.metadataWith" (list . dict) }}
{{- end }}

{{/* registry/repository:tag, or registry/repository@digest: a digest takes precedence. (list $ image tag) */}}
{{- define "bellwether.imageOf" -}}
{{- $ := index . 0 }}
{{- $image := index . 1 }}
{{- with $image.registry | default ($.Values.global).imageRegistry }}{{ . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "bellwether.image" -}}
{{- include "bellwether.imageOf" (list . .Values.image) }}
{{- end }}

{{- define "bellwether.pullSecrets" -}}
{{- with concat .Values.imagePullSecrets (($.Values.global).imagePullSecrets | default list) | uniq -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "bellwether.serviceAccountName" -}}
{{- $own := include "bellwether.fullname" . }}
{{- .Values.serviceAccount.name | default (ternary $own "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* The names in a certificate of the server: those of its services, and that of port-forwarding. */}}
{{- define "bellwether.dnsNames" -}}
{{- $full := include "bellwether.fullname" . }}
{{- $namespace := include "bellwether.namespace" . }}
{{- $names := list "localhost" }}
{{- range $service := list $full (printf "%s-headless" $full) (printf "%s-metrics" $full) }}
{{- range list "" (printf ".%s" $namespace) (printf ".%s.svc" $namespace) (printf ".%s.svc.cluster.local" $namespace) }}
{{- $names = append $names (printf "%s%s" $service .) }}
{{- end }}
{{- end }}
{{- toJson $names }}
{{- end }}
