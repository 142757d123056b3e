{{/* The configuration file. Flags of the pod come before it; it has what no flag has. */}}
{{- define "bellwether.configFile" -}}
{{- $settings := .Values.settings -}}
drain_deadline_seconds = {{ int64 $settings.drainDeadlineSeconds }}
{{- range $table := list "limits" "history" "sessions" "faults" }}
{{- with get $settings $table }}

[{{ $table }}]
{{- range $key, $value := . }}
{{ $key }} = {{ int64 $value }}
{{- end }}
{{- end }}
{{- end }}
{{- range include "bellwether.issuers" . | fromJsonArray }}

[[jwt]]
name = {{ .name | toJson }}
issuer = {{ .issuer | toJson }}
audience = {{ .audience | toJson }}
{{- if .url }}
keys = {{ .url | toJson }}
{{- else }}
keys = {{ printf "/etc/bellwether/jwt/%s/%s" .name .key | toJson }}
{{- end }}
{{- if .ofCluster }}
keys_ca = "/etc/bellwether/cluster/ca.crt"
keys_token_file = "/etc/bellwether/cluster/token"
{{- end }}
{{- with .algorithms }}
algorithms = {{ toJson . }}
{{- end }}
{{- end }}
{{- end }}

{{/* All issuers of JWT, those of service accounts included. */}}
{{- define "bellwether.issuers" -}}
{{- $issuers := .Values.auth.jwt }}
{{- if include "bellwether.serviceAccountTokens" . }}
{{- $accounts := .Values.auth.serviceAccounts }}
{{- $own := printf "%s-access" (include "bellwether.fullname" .) }}
{{- $configMap := $accounts.configMap | default $own }}
{{- $key := ternary $accounts.key "jwks.json" (ne $accounts.configMap "") }}
{{- $issuer := dict "name" $accounts.name "issuer" $accounts.issuer "audience" $accounts.audience }}
{{- if or $accounts.jwks $accounts.configMap }}
{{- $issuer = merge $issuer (dict "configMap" $configMap "key" $key) }}
{{- else }}
{{- $issuer = merge $issuer (dict "url" "https://kubernetes.default.svc/openid/v1/jwks" "ofCluster" true) }}
{{- end }}
{{- $issuers = prepend $issuers $issuer }}
{{- end }}
{{- toJson $issuers }}
{{- end }}

{{/* The file of roles. JSON strings are TOML strings too. */}}
{{- define "bellwether.rolesFile" -}}
{{- range include "bellwether.grants" . | fromJsonArray }}
[[grant]]
role = {{ .role | toJson }}
to = {{ .to | toJson }}
namespace = {{ .namespace | toJson }}
application = {{ .application | toJson }}
{{- with .unit }}
unit = {{ . | toJson }}
{{- end }}
{{- if .data }}
data = true
{{- end }}
{{ end }}
{{- end }}

{{/* Files that the server reads again when they change, so that they need no restart. */}}
{{- define "bellwether.accessFiles" -}}
{{- $files := dict }}
{{- with include "bellwether.grants" . | fromJsonArray }}{{ $_ := set $files "roles.toml" (include "bellwether.rolesFile" $ | trim | printf "%s\n") }}{{ end }}
{{- with .Values.auth.serviceAccounts }}
{{- if and .jwks (not .configMap) }}{{ $_ := set $files "jwks.json" .jwks }}{{ end }}
{{- end }}
{{- toJson $files }}
{{- end }}

{{/* Files that the server reads when it starts. */}}
{{- define "bellwether.configFiles" -}}
{{- $files := dict "bellwether.toml" (include "bellwether.configFile" . | printf "%s\n") }}
{{- with .Values.settings.errorRules }}{{ $_ := set $files "error-rules.toml" . }}{{ end }}
{{- toJson $files }}
{{- end }}

{{/*
Files in the pod: `{name, mountPath, source}` each, where source is the source of a volume. Secrets are readable by the
group of the pod alone.
*/}}
{{- define "bellwether.files" -}}
{{- $full := include "bellwether.fullname" . }}
{{- $files := list (dict "name" "config" "path" "config" "configMap" (printf "%s-config" $full)) }}
{{- if not (eq (include "bellwether.accessFiles" .) "{}") }}
{{- $files = append $files (dict "name" "access" "path" "access" "configMap" (printf "%s-access" $full)) }}
{{- end }}
{{- with include "bellwether.tlsSecret" . }}
{{- $files = append $files (dict "name" "tls" "path" "tls" "secret" .) }}
{{- end }}
{{- with .Values.tls.clientCA }}
{{- if or .secret .configMap }}
{{- $files = append $files (dict "name" "client-ca" "path" "client-ca" "secret" .secret "configMap" .configMap) }}
{{- end }}
{{- end }}
{{- with .Values.auth.tokens.secret }}
{{- $files = append $files (dict "name" "tokens" "path" "tokens" "secret" .) }}
{{- end }}
{{- with .Values.auth.roles }}
{{- if or .secret .configMap }}
{{- $files = append $files (dict "name" "roles" "path" "roles" "secret" .secret "configMap" .configMap) }}
{{- end }}
{{- end }}
{{- range include "bellwether.issuers" . | fromJsonArray }}
{{- if .configMap }}
{{- $files = append $files (dict "name" (printf "jwt-%s" .name) "path" (printf "jwt/%s" .name) "configMap" .configMap) }}
{{- else if .ofCluster }}
{{- $token := dict "serviceAccountToken" (dict "path" "token" "expirationSeconds" 3600) }}
{{- $authority := dict "configMap" (dict "name" "kube-root-ca.crt" "items" (list (dict "key" "ca.crt" "path" "ca.crt"))) }}
{{- $files = append $files (dict "name" "cluster" "path" "cluster" "projected" (list $token $authority)) }}
{{- end }}
{{- end }}
{{- if .Values.redis.enabled }}
{{- range $name, $secret := dict "store-password" .Values.redis.passwordSecret.name "store-ca" .Values.redis.tls.caSecret "store-certificate" .Values.redis.tls.certificateSecret }}
{{- if $secret }}{{ $files = append $files (dict "name" $name "path" $name "secret" $secret) }}{{ end }}
{{- end }}
{{- end }}
{{- toJson $files }}
{{- end }}
