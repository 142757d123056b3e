{{/* What cannot work about the store. */}}
{{- define "bellwether.wrong.store" -}}
{{- $wrong := list }}
{{- $redis := .Values.redis }}
{{- $persistence := .Values.persistence }}
{{- $secret := (include "bellwether.urlSecret" . | fromJson).name }}
{{- $ways := list }}
{{- range $name, $value := dict "redis.host" $redis.host "redis.url" $redis.url "redis.urlSecret.name" $secret }}
{{- if $value }}{{ $ways = append $ways $name }}{{ end }}
{{- end }}

{{- if and $redis.enabled (not $ways) }}
{{- $wrong = append $wrong "redis.enabled is true, but it has no address: set one of redis.host, redis.url and redis.urlSecret.name." }}
{{- end }}
{{- if and $ways (not $redis.enabled) }}
{{- $wrong = append $wrong (printf "%s is set, but redis.enabled is false, so Redis would not be used: set redis.enabled=true, or leave the address out." (join " and " $ways)) }}
{{- end }}
{{- if gt (len $ways) 1 }}
{{- $wrong = append $wrong (printf "%s are set, but there is one address: leave all but one out." (join " and " $ways)) }}
{{- end }}
{{- if and $redis.existingSecret $redis.urlSecret.name }}
{{- $wrong = append $wrong "redis.existingSecret is the old name of redis.urlSecret, but both are set: leave the old one out." }}
{{- end }}
{{- if and $secret $redis.passwordSecret.name }}
{{- $wrong = append $wrong "redis.passwordSecret.name is set, but the URL in redis.urlSecret has the password in it: leave one of them out, or give the address by redis.url." }}
{{- end }}
{{- if and $redis.username (not $redis.host) }}
{{- $wrong = append $wrong "redis.username is for redis.host: write the user into the URL instead." }}
{{- end }}
{{- if and $redis.username (not $redis.passwordSecret.name) }}
{{- $wrong = append $wrong "redis.username is set without a password: set redis.passwordSecret.name." }}
{{- end }}
{{- if and $redis.tls.enabled (not $redis.host) }}
{{- $wrong = append $wrong "redis.tls.enabled is for redis.host: write rediss:// into the URL instead." }}
{{- end }}
{{- $plain := or (and $redis.host (not $redis.tls.enabled)) (and $redis.url (not (regexMatch "^(rediss|valkeys)[+:]" $redis.url))) }}
{{- range $name := list "caSecret" "certificateSecret" }}
{{- if and $plain (get $redis.tls $name) }}
{{- $wrong = append $wrong (printf "redis.tls.%s is set, but the connection to Redis has no TLS: set redis.tls.enabled=true for redis.host, or write rediss:// into the URL." $name) }}
{{- end }}
{{- end }}
{{- if and .Values.trialValkey.enabled $redis.enabled }}
{{- $wrong = append $wrong "trialValkey.enabled and redis.enabled are both true, but there is one store: leave one of them out." }}
{{- end }}

{{- if and (include "bellwether.shared" .) $persistence.enabled }}
{{- $wrong = append $wrong "persistence.enabled is true, but with Redis nothing is kept in the pod: leave one of them out." }}
{{- end }}
{{- if and $persistence.existingClaim (not (include "bellwether.persistent" .)) }}
{{- $wrong = append $wrong (printf "persistence.existingClaim is %q, but the pod keeps nothing on a claim: leave it out, or use neither redis.enabled nor persistence.enabled=false." $persistence.existingClaim) }}
{{- end }}
{{- toJson $wrong }}
{{- end }}
