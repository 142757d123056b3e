{{/* TLS, identities and roles that are half open. */}}
{{- define "bellwether.wrong.access" -}}
{{- $wrong := list }}
{{- $tls := .Values.tls }}
{{- $auth := .Values.auth }}
{{- $hasTLS := include "bellwether.tls" . }}
{{- $hasAuth := include "bellwether.auth" . }}
{{- $insecure := .Values.insecure }}

{{- if .Values.trial.enabled }}
{{- $own := list }}
{{- range $name, $value := dict "tls.existingSecret" $tls.existingSecret "tls.certManager.enabled" $tls.certManager.enabled "tls.clientCA" (include "bellwether.clientCA" .) "auth.tokens.secret" $auth.tokens.secret "auth.serviceAccounts" (include "bellwether.serviceAccountTokens" .) "auth.jwt" $auth.jwt "auth.grants" $auth.grants "auth.roles" (or $auth.roles.configMap $auth.roles.secret) }}
{{- if $value }}{{ $own = append $own $name }}{{ end }}
{{- end }}
{{- if $own }}
{{- $wrong = append $wrong (printf "trial.enabled makes the certificate, the tokens and the roles of a trial: leave it out, or leave out %s." (join " and " $own)) }}
{{- end }}
{{- else if not .Values.trial.makeSecrets }}
{{- $wrong = append $wrong "trial.makeSecrets is false, but there is no trial: set trial.enabled=true, or leave it out." }}
{{- end }}
{{- if and $tls.existingSecret $tls.certManager.enabled }}
{{- $wrong = append $wrong "tls.existingSecret and tls.certManager.enabled are both set, but there is one certificate: leave one of them out." }}
{{- end }}
{{- if and $tls.certManager.enabled (not $tls.certManager.issuerRef.name) }}
{{- $wrong = append $wrong "tls.certManager.enabled is true, but tls.certManager.issuerRef.name is empty: name the Issuer." }}
{{- end }}
{{- if and $tls.clientCA.secret $tls.clientCA.configMap }}
{{- $wrong = append $wrong "tls.clientCA.secret and tls.clientCA.configMap are both set: leave one of them out." }}
{{- end }}
{{- if and (include "bellwether.clientCA" .) (not $hasTLS) }}
{{- $wrong = append $wrong "tls.clientCA is set, but the server has no certificate, so no client presents one: set tls.existingSecret or tls.certManager." }}
{{- end }}
{{- if and $tls.clientCertificates (not (include "bellwether.clientCA" .)) }}
{{- $wrong = append $wrong (printf "tls.clientCertificates is %q, but no authority verifies them: set tls.clientCA.secret or tls.clientCA.configMap." $tls.clientCertificates) }}
{{- end }}

{{- if and $hasAuth (not (include "bellwether.roles" .)) }}
{{- $wrong = append $wrong "callers prove who they are, but nothing says what they may do, so every call would be refused: set auth.grants, or auth.roles." }}
{{- end }}
{{- if and (include "bellwether.roles" .) (not $hasAuth) }}
{{- $wrong = append $wrong "there are roles, but no way to know callers: set auth.tokens.secret, auth.serviceAccounts, auth.jwt or tls.clientCA." }}
{{- end }}
{{- $roles := list }}
{{- range $name, $value := dict "auth.grants" $auth.grants "auth.roles.configMap" $auth.roles.configMap "auth.roles.secret" $auth.roles.secret }}
{{- if $value }}{{ $roles = append $roles $name }}{{ end }}
{{- end }}
{{- if gt (len $roles) 1 }}
{{- $wrong = append $wrong (printf "%s are set, but there is one file of roles: leave all but one out." (join " and " $roles)) }}
{{- end }}
{{- range $auth.grants }}
{{- if and (eq .role "worker") (not .unit) }}
{{- $wrong = append $wrong (printf "a grant of the role worker for %s has no unit: a worker acts as a unit." (join ", " .to)) }}
{{- end }}
{{- end }}
{{- if and $auth.serviceAccounts.jwks $auth.serviceAccounts.configMap }}
{{- $wrong = append $wrong "auth.serviceAccounts.jwks and auth.serviceAccounts.configMap are both set: leave one of them out." }}
{{- end }}
{{- range $auth.jwt }}
{{- if or (and .url .configMap) (not (or .url .configMap)) (and .configMap (not .key)) }}
{{- $wrong = append $wrong (printf "the issuer %s of auth.jwt needs either url, or configMap and key, for its keys." .name) }}
{{- end }}
{{- end }}
{{- $names := list }}
{{- range include "bellwether.issuers" . | fromJsonArray }}{{ $names = append $names .name }}{{ end }}
{{- if ne (len $names) (len (uniq $names)) }}
{{- $wrong = append $wrong (printf "the issuers are called %s, but principals name their issuer: give each its own name." (join ", " $names)) }}
{{- end }}

{{- if and $hasTLS (not $hasAuth) (not $insecure) }}
{{- $wrong = append $wrong "there is TLS, but every caller would be served: set auth.tokens.secret, auth.serviceAccounts, auth.jwt or tls.clientCA, or insecure=true if the network keeps strangers out." }}
{{- end }}
{{- if and $hasAuth (not $hasTLS) (not $insecure) }}
{{- $wrong = append $wrong "callers prove who they are, but without TLS their tokens cross the network in plain text: set tls.existingSecret or tls.certManager, or insecure=true if the network encrypts." }}
{{- end }}
{{- if and $hasTLS $hasAuth (not $tls.ops) (not $insecure) }}
{{- $wrong = append $wrong "tls.ops is false, so tokens of scrapers would cross the network in plain text: leave it out, or set insecure=true if the network encrypts." }}
{{- end }}
{{- if and $insecure (include "bellwether.secured" .) }}
{{- $wrong = append $wrong "insecure is true, but tls and auth protect both ports, so nothing needs it: leave it out." }}
{{- end }}
{{- toJson $wrong }}
{{- end }}
