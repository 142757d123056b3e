{{/* Questions about the values. The answer is "true", or empty for no. */}}

{{/* Whether the embedded store is on a volume claim. */}}
{{- define "bellwether.persistent" -}}
{{- $wanted := .Values.persistence.enabled }}
{{- if ternary (not (include "bellwether.shared" .)) $wanted (kindIs "invalid" $wanted) }}true{{ end }}
{{- end }}

{{/* Whether the store is outside of the pod, so that several pods can share it. */}}
{{- define "bellwether.shared" -}}
{{- if or .Values.redis.enabled .Values.trialValkey.enabled }}true{{ end }}
{{- end }}

{{/* Whether there may be more than one pod. */}}
{{- define "bellwether.several" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}true{{ end }}
{{- end }}

{{/* The secret with the certificate of the server. */}}
{{- define "bellwether.tlsSecret" -}}
{{- $own := printf "%s-tls" (include "bellwether.fullname" .) }}
{{- $made := ternary (printf "%s-trial-server" (include "bellwether.fullname" .)) "" .Values.trial.enabled }}
{{- .Values.tls.existingSecret | default (ternary $own $made .Values.tls.certManager.enabled) }}
{{- end }}

{{- define "bellwether.tls" -}}
{{- if include "bellwether.tlsSecret" . }}true{{ end }}
{{- end }}

{{/* Whether the ops port has TLS. */}}
{{- define "bellwether.opsTLS" -}}
{{- if and (include "bellwether.tls" .) .Values.tls.ops }}true{{ end }}
{{- end }}

{{- define "bellwether.clientCA" -}}
{{- with .Values.tls.clientCA }}{{ if or .secret .configMap }}true{{ end }}{{ end }}
{{- end }}

{{- define "bellwether.serviceAccountTokens" -}}
{{- with .Values.auth.serviceAccounts }}{{ if or .enabled .jwks .configMap }}true{{ end }}{{ end }}
{{- end }}

{{/* Whether callers have to prove who they are. */}}
{{- define "bellwether.auth" -}}
{{- if or .Values.trial.enabled .Values.auth.tokens.secret .Values.auth.jwt (include "bellwether.serviceAccountTokens" .) (include "bellwether.clientCA" .) }}true{{ end }}
{{- end }}

{{- define "bellwether.roles" -}}
{{- with .Values.auth }}{{ if or $.Values.trial.enabled .grants .roles.configMap .roles.secret }}true{{ end }}{{ end }}
{{- end }}

{{/*
Roles of callers. In a trial pods report and read with one token, and people also change what no worker may with another.
*/}}
{{- define "bellwether.grants" -}}
{{- if .Values.trial.enabled }}
{{- $all := dict "namespace" "*" "application" "*" }}
{{- $people := list "token:trial-operator" }}
{{- $both := prepend $people "token:trial" }}
{{- $worker := merge (dict "role" "worker" "to" $both "unit" "*") $all }}
{{- $reader := merge (dict "role" "reader" "to" (list "token:trial") "data" true) $all }}
{{- toJson (list $worker $reader (merge (dict "role" "operator" "to" $people) $all)) }}
{{- else }}
{{- toJson .Values.auth.grants }}
{{- end }}
{{- end }}

{{/* Whether the server accepts the address of the pod without --insecure: it has TLS on both ports, and knows callers. */}}
{{- define "bellwether.secured" -}}
{{- if and (include "bellwether.opsTLS" .) (include "bellwether.auth" .) }}true{{ end }}
{{- end }}

{{/* Whether the ports can be reached from other pods. */}}
{{- define "bellwether.exposed" -}}
{{- if or .Values.insecure (include "bellwether.secured" .) }}true{{ end }}
{{- end }}

{{/* The secret with the token of `helm test`. */}}
{{- define "bellwether.testSecret" -}}
{{- $own := printf "%s-trial-operator" (include "bellwether.fullname" .) }}
{{- .Values.helmTest.tokenSecret | default (ternary $own "" .Values.trial.enabled) }}
{{- end }}

{{/* Whether `helm test` has what it needs to reach the server and to prove who it is. */}}
{{- define "bellwether.testable" -}}
{{- $test := .Values.helmTest }}
{{- $proof := or (include "bellwether.testSecret" .) $test.certificateSecret (include "bellwether.serviceAccountTokens" .) }}
{{- if and $test.enabled (include "bellwether.exposed" .) (or $proof (not (include "bellwether.auth" .))) }}true{{ end }}
{{- end }}

{{/* Names of the service under which clients call the server. */}}
{{- define "bellwether.host" -}}
{{- printf "%s.%s.svc" (include "bellwether.fullname" .) (include "bellwether.namespace" .) }}
{{- end }}

{{/* Port of the service for JSON and the status page. */}}
{{- define "bellwether.webPort" -}}
{{- ternary 443 80 (eq (include "bellwether.tls" .) "true") }}
{{- end }}

{{- define "bellwether.url" -}}
{{- printf "%s://%s:50051" (ternary "https" "http" (eq (include "bellwether.tls" .) "true")) (include "bellwether.host" .) }}
{{- end }}

{{/* The URL of the store without its password; empty if a secret has it. */}}
{{- define "bellwether.storeURL" -}}
{{- $redis := .Values.redis }}
{{- if .Values.trialValkey.enabled -}}
redis://{{ include "bellwether.fullname" . }}-valkey:6379
{{- else if $redis.url -}}
{{ $redis.url }}
{{- else if $redis.host -}}
{{ ternary "rediss" "redis" $redis.tls.enabled }}://{{ with $redis.username }}{{ . }}@{{ end }}{{ $redis.host }}:{{ int $redis.port }}/{{ int $redis.database }}
{{- end }}
{{- end }}

{{/* The name and key of the secret with the whole URL. `redis.existingSecret` is its name in earlier charts. */}}
{{- define "bellwether.urlSecret" -}}
{{- $old := .Values.redis.existingSecret | default dict }}
{{- $new := .Values.redis.urlSecret }}
{{- dict "name" ($new.name | default $old.name | default "") "key" (ternary $new.key ($old.key | default $new.key) (ne $new.name "")) | toJson }}
{{- end }}

{{/* Values that have another name now, with a sentence for each that is in use. The old name works for one minor version. */}}
{{- define "bellwether.renamed" -}}
{{- $used := list }}
{{- if .Values.redis.existingSecret }}
{{- $used = append $used "redis.existingSecret is called redis.urlSecret since 0.2; the old name works until 0.4." }}
{{- end }}
{{- toJson $used }}
{{- end }}
